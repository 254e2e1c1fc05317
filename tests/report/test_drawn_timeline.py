from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.counting.result import CountedProcedure
from polyplink.report.contents import ReportedProcedure
from polyplink.report.formats import Texts
from polyplink.report.polyps import TICKS, Timeline, assign_lanes, describe, layout, match
from tests.report.sample import procedure, procedures

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=25).map(
    lambda pairs: sorted((first, first + length) for first, length in pairs)
)


def draw(case: ReportedProcedure) -> Timeline:
    return layout(case, match(case), Texts())


@given(procedures())
def test_every_polyp_has_a_line_with_its_views_and_ticks_are_few(case: ReportedProcedure) -> None:
    drawing, matching = draw(case), match(case)
    counted = [f"polyp {polyp.label}" for polyp in matching.counted.values()]
    true = [f"true {polyp.label}" for polyp in matching.true.values()]
    all_known = len(case.true_polyps) == len(case.tracklets)
    unknown = ["unknown"] if true and not all_known else []
    assert [row.name for row in drawing.rows] == counted + true + unknown
    titles = sorted(describe(t, matching, case.fps, Texts()) for t in case.tracklets)
    for rows in (drawing.rows[: len(counted)], drawing.rows[len(counted) :]):
        bars = [bar for row in rows for bar in row.bars]
        assert sorted(bar.title for bar in bars) in ([], titles)
        # No bar covers another, or the bars of another line.
        assert len({(bar.x, bar.y) for bar in bars}) == len(bars)
        for row, below in pairwise(rows):
            assert max(bar.y for bar in row.bars) + drawing.bar < min(bar.y for bar in below.bars)
    assert len(drawing.crosses) == sum(map(matching.is_wrong, case.tracklets))
    positions = [x for x, _ in drawing.ticks]
    assert positions == sorted(set(positions))
    assert len(positions) <= TICKS + 1
    assert drawing.left == positions[0] <= positions[-1] <= drawing.right


def test_hover_texts_and_the_summary_describe_the_views() -> None:
    case = procedure()
    assert describe(case.tracklets[2], match(case), 25.0, Texts()).split("\n") == [
        "view t2",
        "frames 700 to 720 (from 0:28)",
        "counted as polyp 2",
        "true polyp A (a)",
        "confidence 75 %",
        "counted with another polyp than the one it shows",
    ]
    bridged = replace(case.tracklets[2], bridged=0.25)
    assert "\nnot detected in 25 % of them\n" in describe(bridged, match(case), 25.0, Texts())
    assert draw(case).summary == (
        "Time line of 3 polyps in 5 views; truth: 2 polyps, 1 view counted with another"
    )
    # 3,000 frames at 25 a second: two minutes
    assert [text for _, text in draw(case).ticks][:3] == ["0:00", "0:10", "0:20"]
    assert [text for _, text in draw(replace(case, fps=None)).ticks][:2] == ["0", "500"]
    slow = ReportedProcedure(CountedProcedure("p"), n_frames=5, fps=0.5)
    assert [text for _, text in draw(slow).ticks] == [f"0:{second:02d}" for second in range(11)]


def test_a_tracklet_must_end_within_the_recording() -> None:
    with pytest.raises(PolyplinkError, match="'t4' ends at frame 1200 of 1200; correct n_frames"):
        replace(procedure(), n_frames=1200)


@given(SPANS)
def test_lanes_never_overlap_and_are_as_few_as_possible(spans: list[tuple[int, int]]) -> None:
    lanes = assign_lanes(spans)
    for i, (first, last) in enumerate(spans):
        for j in range(i):
            if lanes[i] == lanes[j]:
                assert spans[j][1] < first or last < spans[j][0]
    concurrent = [sum(a <= positions <= b for a, b in spans) for positions in range(100)]
    assert max(lanes, default=-1) + 1 == max(concurrent)
