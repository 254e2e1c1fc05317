from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.report.drawn_timeline import TICKS, Timeline, assign_lanes, describe, layout
from polyplink.report.polyps import match
from polyplink.report.records import Procedure, Tracklet
from tests.report.sample import procedure, procedures

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=25).map(
    lambda pairs: sorted((first, first + length) for first, length in pairs)
)


def drawn(made: Procedure) -> Timeline:
    return layout(made, match(made))


@given(procedures())
def test_every_tracklet_has_a_bar_in_each_row_and_ticks_are_few(made: Procedure) -> None:
    drawing = drawn(made)
    truth = any(t.polyp_id is not None for t in made.tracklets)
    assert [row.name for row in drawing.rows] == ["counted", "true"][: 1 + truth]
    assert {len(row.bars) for row in drawing.rows} == {len(made.tracklets)}
    assert len(drawing.crosses) == sum(match(made).is_wrong(t) for t in made.tracklets)
    at = [x for x, _ in drawing.ticks]
    assert at == sorted(set(at))
    assert len(at) <= TICKS + 1
    assert drawing.left == at[0] <= at[-1] <= drawing.right


def test_far_apart_bars_of_a_polyp_get_a_label_each_where_there_is_room() -> None:
    near, far = Tracklet("b", 110, 200, "x"), Tracklet("b", 900, 990, "x")
    for other, labels in ((near, ["1"]), (far, ["1", "1"])):
        made = Procedure("p", 1000, (Tracklet("a", 0, 100, "x"), other))
        assert [label.text for label in drawn(made).rows[0].labels] == labels


def test_hover_text_tells_all() -> None:
    made = procedure()
    assert describe(made.tracklets[2], match(made), 25.0).split("\n") == [
        "view t2",
        "frames 700 to 720 (from 0:28)",
        "counted as polyp 2",
        "true polyp A (a)",
        "confidence 75 %",
        "counted with another polyp than the one it shows",
    ]
    bridged = replace(made.tracklets[2], bridged=0.25)
    assert "\nno box in 25 % of them\n" in describe(bridged, match(made), 25.0)
    assert drawn(made).summary == (
        "Time line of 5 views of 3 polyps; truth: 2 polyps, 1 views are counted with another"
    )
    # 3,000 frames at 25 a second: two minutes
    assert [text for _, text in drawn(made).ticks][:3] == ["0:00", "0:10", "0:20"]
    assert [text for _, text in drawn(replace(made, fps=None)).ticks][:2] == ["0", "500"]


def test_a_tracklet_must_end_within_the_recording() -> None:
    with pytest.raises(PolyplinkError, match="'t4' ends at frame 1200 of 1200; correct n_frames"):
        replace(procedure(), n_frames=1200)


@given(SPANS)
def test_lanes_never_overlap_and_are_as_few_as_can_be(spans: list[tuple[int, int]]) -> None:
    placed = assign_lanes(spans)
    for i, (first, last) in enumerate(spans):
        for j in range(i):
            if placed[i] == placed[j]:
                assert spans[j][1] < first or last < spans[j][0]
    together = [sum(a <= at <= b for a, b in spans) for at in range(100)]
    assert max(placed, default=-1) + 1 == max(together)
