from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.data.checks.check_boxes import check_boxes, check_gaps, check_identities
from polyplink.data.checks.findings import Finding
from tests.data.made_sets import HEIGHT, WIDTH, data_set, procedure_row, small_set

_N_FRAMES = 6

_side = st.integers(-80, 160)
_rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(-1, 7),
        _side,
        _side,
        st.integers(1, 90),
        st.integers(1, 90),
        st.sampled_from([None, "a_1", "a_2", "b_1", "c_1"]),
    ),
    max_size=12,
)


def _data(rows: list[tuple[Any, ...]]) -> Any:
    polyps = [(f"{p}_{k}", p, None, None, None, None) for p, k in (("a", 1), ("a", 2), ("b", 1))]
    return data_set(rows, polyps, [procedure_row(p, _N_FRAMES) for p in "ab"])


def _counts(findings: list[Finding]) -> dict[str, int]:
    return {finding.check: finding.count for finding in findings}


@settings(deadline=None)
@given(_rows)
def test_box_counts_against_a_loop(rows: list[tuple[Any, ...]]) -> None:
    naive: Counter[str] = Counter()
    for _, frame, x, y, w, h, _ in rows:
        naive["frame number"] += not 0 <= frame < _N_FRAMES
        outside = x + w <= 0 or y + h <= 0 or x >= WIDTH or y >= HEIGHT
        naive["box outside"] += outside
        inside = x >= 0 and y >= 0 and x + w <= WIDTH and y + h <= HEIGHT
        naive["box over the edge"] += not inside and not outside
        naive["tiny box"] += min(w, h) < 8
    assert _counts(check_boxes(_data(rows))) == {k: n for k, n in naive.items() if n}


@settings(deadline=None)
@given(_rows)
def test_identity_counts_against_a_loop(rows: list[tuple[Any, ...]]) -> None:
    naive: Counter[str] = Counter()
    seen = set()
    for procedure_id, frame, *_, polyp_id in rows:
        if polyp_id is None:
            naive["box without polyp"] += 1
            continue
        naive["unknown polyp"] += polyp_id == "c_1"
        naive["polyp of another procedure"] += polyp_id != "c_1" and polyp_id[0] != procedure_id
        naive["polyp twice in a frame"] += (procedure_id, frame, polyp_id) in seen
        seen.add((procedure_id, frame, polyp_id))
    assert _counts(check_identities(_data(rows))) == {k: n for k, n in naive.items() if n}


@settings(deadline=None)
@given(_rows)
def test_gap_counts_against_a_loop(rows: list[tuple[Any, ...]]) -> None:
    frames = defaultdict(set)
    for procedure_id, frame, *_, polyp_id in rows:
        if polyp_id is not None:
            frames[procedure_id, polyp_id].add(frame)
    gaps = 0
    for numbers in frames.values():
        ordered = sorted(numbers)
        gaps += sum(b - a > 1 for a, b in pairwise(ordered))
    assert _counts(check_gaps(_data(rows))).get("gap", 0) == gaps


def test_nothing_is_wrong_with_the_small_set() -> None:
    data = small_set()
    assert check_boxes(data) == check_identities(data) == check_gaps(data) == []


@pytest.mark.parametrize(
    ("row", "severity", "message"),
    [
        (("a", 6, 1, 1, 9, 9, None), "error", "procedure a: a box in frame 6 of 6"),
        (
            ("a", 0, 64, 1, 9, 9, None),
            "error",
            "procedure a, frame 0: box (64, 1, 9, 9) is wholly outside the image of 64 x 48",
        ),
        (
            ("a", 0, 60, 1, 9, 9.5, None),
            "warning",
            "procedure a, frame 0: box (60, 1, 9, 9.5) reaches beyond the image of 64 x 48",
        ),
        (
            ("a", 0, 1, 1, 7, 9, None),
            "warning",
            "procedure a, frame 0: box (1, 1, 7, 9) has a side below 8 pixels",
        ),
    ],
)
def test_messages_of_boxes(row: tuple[Any, ...], severity: str, message: str) -> None:
    (finding,) = check_boxes(_data([row]))
    assert (finding.severity, finding.what, finding.count) == (severity, message, 1)


@pytest.mark.parametrize(
    ("polyp_id", "severity", "message"),
    [
        ("c_1", "error", "procedure a, frame 3: a box of c_1, which is in no row of polyps"),
        ("b_1", "error", "procedure a, frame 3: a box of b_1, which belongs to b"),
        (None, "note", "procedure a, frame 3: a box without a polyp id"),
    ],
)
def test_messages_of_identities(polyp_id: str | None, severity: str, message: str) -> None:
    (finding,) = check_identities(_data([("a", 3, 1, 1, 9, 9, polyp_id)]))
    assert (finding.severity, finding.what, finding.count) == (severity, message, 1)


def test_annotation_of_every_second_frame_is_told() -> None:
    rows = [("a", frame, 1, 1, 9, 9, "a_1") for frame in (0, 2, 4)]
    skipped, gap = check_gaps(_data(rows))
    assert (skipped.severity, gap.severity) == ("warning", "note")
    assert skipped.what == "procedure a: boxes of a polyp are usually 2 frames apart"
    assert gap.what == "procedure a: a_1 is away for 2 frames before frame 2"
    assert gap.count == 2
