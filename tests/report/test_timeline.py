from dataclasses import replace

import pytest
from hypothesis import given, settings

from polyplink.report.matching import match
from polyplink.report.model import Procedure, Tracklet
from polyplink.report.timeline import LEFT, THINNEST, WIDTH, Timeline, describe, layout
from tests.report.sample import procedure, procedures


def drawn(made: Procedure) -> Timeline:
    return layout(made, match(made))


@given(procedures())
@settings(deadline=None)
def test_every_tracklet_has_a_bar_in_each_row_within_the_axis(made: Procedure) -> None:
    drawing = drawn(made)
    truth = any(t.polyp_id is not None for t in made.tracklets)
    assert [row.name for row in drawing.rows] == ["counted", "true"][: 1 + truth]
    for row in drawing.rows:
        assert len(row.bars) == len(made.tracklets)
        for bar in row.bars:
            assert bar.x >= LEFT
            assert bar.x + bar.width <= LEFT + WIDTH + THINNEST
            assert bar.y + 15 <= drawing.axis
    assert len(drawing.crosses) == sum(match(made).is_wrong(t) for t in made.tracklets)


def test_places_are_in_proportion_to_frames() -> None:
    bars = drawn(procedure()).rows[0].bars
    first = min(bars, key=lambda bar: bar.x)
    assert first.x == LEFT
    assert first.width == pytest.approx(100 / 3000 * WIDTH)


def test_overlapping_tracklets_lie_in_lanes() -> None:
    bars = {bar.title.split("\n")[0]: bar for bar in drawn(procedure()).rows[0].bars}
    assert bars["tracklet t3"].y < bars["tracklet t4"].y
    assert bars["tracklet t0"].y == bars["tracklet t3"].y


def test_far_apart_bars_of_a_polyp_get_a_label_each() -> None:
    near, far = Tracklet("b", 110, 200, "x"), Tracklet("b", 900, 990, "x")
    for other, labels in ((near, ["1"]), (far, ["1", "1"])):
        made = Procedure("p", 1000, (Tracklet("a", 0, 100, "x"), other))
        assert [label.text for label in drawn(made).rows[0].labels] == labels


def test_ticks_tell_minutes_and_seconds_or_frames() -> None:
    made = procedure()  # 3,000 frames at 25 a second: two minutes
    assert [text for _, text in drawn(made).ticks][:3] == ["0:00", "0:10", "0:20"]
    assert drawn(made).ticks[-1][0] == pytest.approx(LEFT + WIDTH)
    assert [text for _, text in drawn(replace(made, fps=None)).ticks][:2] == ["0", "500"]


def test_hover_text_tells_all() -> None:
    made = procedure()
    assert describe(made.tracklets[2], match(made), 25.0).split("\n") == [
        "tracklet t2",
        "frames 700 to 720 (from 0:28)",
        "counted as 2 (z)",
        "true polyp A (a)",
        "sureness 0.75",
        "disagrees with the truth",
    ]


def test_summary_is_in_words() -> None:
    assert drawn(procedure()).summary == (
        "Time line of 5 tracklets in 3 polyps; truth: 2 polyps, 1 tracklets disagree"
    )


def test_nothing_to_draw_is_drawn_as_nothing() -> None:
    drawing = drawn(Procedure("p", 0, ()))
    assert not drawing.rows[0].bars
    assert not drawing.crosses
    assert drawing.ticks
