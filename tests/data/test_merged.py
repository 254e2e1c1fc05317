"""Tables below one another; see tests/app/test_import.py for the way through the commands."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet, known_overlap, merge, overlaps
from tests.data.made_sets import data_sets, small_set


def renamed(data: DataSet, number: int) -> DataSet:
    """The same under ids of its own."""
    ids = [pl.col(c).name.keep() + f"/{number}" for c in ("procedure_id", "polyp_id")]
    splits = {"train": [f"{p}/{number}" for p in data.procedures["procedure_id"]]}
    return DataSet.of(
        data.detections.with_columns(ids),
        data.procedures.with_columns(ids[0]),
        data.polyps.with_columns(ids),
        splits,
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(data_sets(), min_size=1, max_size=3))
def test_every_set_is_found_again_in_the_merged_one(sets: list[DataSet]) -> None:
    sets = [renamed(data, k) for k, data in enumerate(sets)]
    merged = merge([(Path("/x") / str(k), data) for k, data in enumerate(sets)])
    assert merged.detections.height == sum(data.detections.height for data in sets)
    for k, data in enumerate(sets):
        mine = pl.col("procedure_id").str.ends_with(f"/{k}")
        for name in ("detections", "polyps", "procedures"):
            assert getattr(merged, name).filter(mine).equals(getattr(data, name))
    assert sorted(merged.splits["train"]) == sorted(merged.procedures["procedure_id"])


def test_a_set_beside_itself_is_refused_and_overlaps_nothing() -> None:
    data = small_set()
    with pytest.raises(PolyplinkError, match="procedure_id '001-001' is in a and in b"):
        merge([(Path("a"), data), (Path("b"), data)])
    assert overlaps(data) == []


def test_known_overlaps_go_both_ways_whatever_the_spelling() -> None:
    assert known_overlap("SUN", "sun_seg") == known_overlap("SUN-SEG", "sun") is not None
    assert known_overlap("sun", "real-colon") is None
    assert known_overlap("sun", "sun") is None
