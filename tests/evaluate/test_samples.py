import numpy as np
import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.samples import Samples

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2)), st.floats(0, 1)),
    min_size=1,
    max_size=12,
).filter(lambda rows: any(polyp is not None for _, polyp, _ in rows))


@given(ROWS)
def test_codes_are_equal_exactly_if_names_are(
    rows: list[tuple[int, int | None, float]],
) -> None:
    # Polyps are named by numbers, as rows are: a row of an unknown polyp matches none of them.
    procedures = [f"v{procedure}" for procedure, _, _ in rows]
    polyps = [None if polyp is None else f"{3 * procedure + polyp}" for procedure, polyp, _ in rows]
    samples = Samples.of(
        [str(i) for i in range(len(rows))], procedures, polyps, [r[2] for r in rows]
    )
    for i in range(len(rows)):
        assert samples.procedures[samples.procedure[i]] == procedures[i]
        assert samples.labelled[i] == (polyps[i] is not None)
        for j in range(len(rows)):
            same = i == j or (polyps[i] is not None and polyps[i] == polyps[j])
            assert (samples.polyp[i] == samples.polyp[j]) == same
    assert samples.n_unlabelled == polyps.count(None)


@pytest.mark.parametrize(
    ("ids", "procedures", "polyps", "positions", "message"),
    [
        (["a", "a"], ["v", "v"], ["p", "p"], [0, 1], r"tracklet 'a' occurs twice \(row 1\)"),
        (["a", "b"], ["v", "w"], ["p", "p"], [0, 1], "polyp 'p' is in procedures 'v' and 'w'"),
        (["a", "b"], ["v", "v"], [None, None], [0, 1], "no tracklet has a known polyp"),
        (["a", "b"], ["v", "v"], ["p", "p"], [0, 2], r"position 2.0 of row 1 is outside \[0, 1\]"),
        (["a", "b"], ["v", "v"], ["p", "p"], [0, np.nan], "position nan of row 1"),
        (["a", "b"], ["v"], ["p", "p"], [0, 1], "2 tracklets, 1 procedures"),
        ([], [], [], [], "0 tracklets"),
        (["a"], ["v"], ["p"], [[0]], "give one per tracklet"),
    ],
)
def test_invalid_columns_are_refused(
    ids: list[str],
    procedures: list[str],
    polyps: list[str | None],
    positions: list[float],
    message: str,
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        Samples.of(ids, procedures, polyps, positions)
