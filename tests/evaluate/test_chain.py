"""The whole chain against the truth, on procedures small enough to count by hand."""

from typing import Any

import polars as pl
import pytest

from polyplink.evaluate.chain import chain_figures, score_procedure
from polyplink.tracklets.box_runs import fill_gaps

BOX = {"w": 10.0, "h": 10.0}


def annotated(*views: tuple[str, int, int, float]) -> pl.DataFrame:
    """Boxes of (polyp, first frame, frames, x)."""
    rows: list[dict[str, Any]] = [
        {"polyp_id": polyp, "frame": frame, "x": x, "y": 0.0, **BOX}
        for polyp, first, n, x in views
        for frame in range(first, first + n)
    ]
    return pl.DataFrame(rows)


def counted(*tracklets: tuple[int, int, int, float]) -> pl.DataFrame:
    """Boxes of (counted polyp, first frame, frames, x), a tracklet each."""
    rows: list[dict[str, Any]] = [
        {"polyp": polyp, "tracklet": k, "frame": frame, "x": x, "y": 0.0, "score": 0.9, **BOX}
        for k, (polyp, first, n, x) in enumerate(tracklets)
        for frame in range(first, first + n)
    ]
    schema = {"polyp": pl.Int64, "tracklet": pl.Int64, "frame": pl.Int64, "score": pl.Float64}
    boxes = pl.DataFrame(rows, schema=schema | dict.fromkeys("xywh", pl.Float64))
    return boxes.with_columns(interpolated=pl.lit(False))


TRUTH = annotated(("a", 0, 10, 0.0), ("b", 5, 10, 100.0), ("c", 30, 5, 0.0))
FOUND = counted(
    (1, 0, 4, 1.0),  # a
    (1, 6, 4, 1.0),  # a, linked
    (2, 5, 10, 101.0),  # b
    (3, 5, 3, 300.0),  # nothing: a false alarm counted as a polyp
    (2, 20, 3, 300.0),  # a false alarm linked to b
)


def test_a_procedure_counted_by_hand() -> None:
    row = score_procedure("p", TRUTH, FOUND)
    assert (row.polyps, row.detected_polyps, row.counted, row.false_polyps) == (3, 2, 3, 1)
    assert (row.tracklets, row.false_tracklets, row.mixed) == (3, 2, 0)
    figures = chain_figures([row, row])
    assert figures["polyps found"].value == pytest.approx(2 / 3)
    assert figures["false polyps"].value == 1
    assert figures["count error"].value == 0  # one missed, one false
    assert figures["FR"].value == 1
    assert figures["HOTA"].value is not None
    assert 0 < figures["HOTA"].value < 1


def test_a_tracklet_of_two_polyps_is_mixed_and_shows_the_longer() -> None:
    truth = annotated(("a", 0, 6, 0.0), ("b", 6, 4, 0.0))
    row = score_procedure("p", truth, counted((1, 0, 10, 0.0)))
    assert (row.detected_polyps, row.mixed, row.tracklets) == (1, 1, 1)


def test_interpolated_boxes_count_in_tracking_and_decide_nothing_else() -> None:
    truth = annotated(("a", 0, 10, 0.0))
    gaps = counted((1, 0, 10, 0.0)).filter(pl.col("frame").is_in([0, 4, 9]))
    filled = fill_gaps(gaps)
    whole, holes = (
        score_procedure("p", truth, boxes)
        for boxes in (filled, gaps.with_columns(interpolated=pl.lit(False)))
    )
    hota = [chain_figures([row])["HOTA"].value or 0 for row in (whole, holes)]
    assert hota == [pytest.approx(1), pytest.approx(0.3)]
    # Nothing is where the gaps are: the tracklet is no false alarm for that.
    away = filled.with_columns(x=pl.when("interpolated").then(500.0).otherwise("x"))
    assert score_procedure("p", truth, away).false_tracklets == 0


def test_of_two_boxes_of_a_polyp_in_a_frame_tracking_sees_the_detectors() -> None:
    truth = annotated(("a", 0, 10, 0.0))
    filled = fill_gaps(counted((1, 0, 10, 0.0)))
    away: dict[str, Any] = {
        "x": 500.0,
        "tracklet": pl.lit(7, pl.Int64),
        "score": pl.lit(None, pl.Float64),
    }
    stray = filled.with_columns(**away, interpolated=pl.lit(True))
    for both in (pl.concat([stray, filled]), pl.concat([filled, stray])):
        found = chain_figures([score_procedure("p", truth, both)])
        assert found["HOTA"].value == pytest.approx(1)


def test_nothing_found_and_nothing_there() -> None:
    nothing = score_procedure("p", TRUTH, counted())
    assert (nothing.detected_polyps, nothing.counted, nothing.polyps) == (0, 0, 3)
    empty = score_procedure("p", TRUTH.clear(), FOUND)
    assert (empty.polyps, empty.false_polyps, empty.counted) == (0, 3, 3)
    figures = chain_figures([nothing])
    assert figures["FR"].value is None
    assert figures["count error"].value == 3
