from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.tracklets import owners
from polyplink.tracklets.owners import column_of, owners_of

NAME = st.text("ab\0é", max_size=3)
PAIRS = st.lists(st.tuples(NAME, st.none() | NAME), max_size=40)

Pair = tuple[str, str | None]


def table(pairs: list[Pair]) -> pl.DataFrame:
    schema = {"procedure_id": pl.String, "polyp_id": pl.String}
    return pl.DataFrame(pairs, schema=schema, orient="row")


@settings(deadline=None)
@given(PAIRS)
def test_equals_a_dictionary_of_pairs(pairs: list[Pair]) -> None:
    found = owners_of(table(pairs))
    numbers: dict[Pair, int] = {}
    for pair in pairs:
        numbers.setdefault(pair, len(numbers))
    assert found.number.tolist() == [numbers[pair] for pair in pairs]
    assert found.names.rows() == list(numbers)
    in_order = sorted(numbers, key=lambda pair: (pair[0], pair[1] is None, pair[1]))
    assert found.place.tolist() == [in_order.index(pair) for pair in numbers]
    procedures = sorted({pair[0] for pair in pairs})
    places = found.procedure - found.procedure.min(initial=len(pairs) + 1)
    assert places.tolist() == [procedures.index(pair[0]) for pair in numbers]


def test_names_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, seeds = owners._numbered, []

    def all_alike(names: pl.DataFrame, seed: int) -> tuple[Any, Any]:
        seeds.append(seed)
        if seed < 2:
            return np.zeros(len(names), np.uint32), np.zeros(1, np.uint32)
        return plain(names, seed)

    monkeypatch.setattr(owners, "_numbered", all_alike)
    assert owners_of(table([("p", "a"), ("p", "b"), ("p", "a")])).number.tolist() == [0, 1, 0]
    assert seeds == [0, 1, 2]


def test_seeds_change_hashes() -> None:
    names = pl.Series(["a", None])
    assert (names.hash(0) != names.hash(1)).all()


def test_columns_are_read_only_in_one_piece_or_more() -> None:
    one = pl.DataFrame({"x": [1.0, 2.0]})
    for frame in (one, pl.concat([one, one], rechunk=False)):
        values = column_of(frame, "x")
        assert not values.flags.writeable
        assert values.tolist() == frame["x"].to_list()
