"""The chain from detector to count against the truth, counted by hand."""

from typing import Any

import polars as pl
import pytest

from polyplink.evaluate.chain import chain_figures, match_tracklets, score_procedure
from polyplink.tracklets.box_runs import fill_gaps

BOX = {"w": 10.0, "h": 10.0}


def true_boxes(*views: tuple[str, int, int, float]) -> pl.DataFrame:
    """Boxes of (polyp, first frame, frames, x)."""
    rows: list[dict[str, Any]] = [
        {"polyp_id": polyp, "frame": frame, "x": x, "y": 0.0, **BOX}
        for polyp, first, n, x in views
        for frame in range(first, first + n)
    ]
    return pl.DataFrame(rows)


def counted_boxes(*tracklets: tuple[int, int, int, float]) -> pl.DataFrame:
    """Boxes of (counted polyp, first frame, frames, x), a tracklet each."""
    rows: list[dict[str, Any]] = [
        {"polyp": polyp, "tracklet": k, "frame": frame, "x": x, "y": 0.0, "score": 0.9, **BOX}
        for k, (polyp, first, n, x) in enumerate(tracklets)
        for frame in range(first, first + n)
    ]
    schema = {"polyp": pl.Int64, "tracklet": pl.Int64, "frame": pl.Int64, "score": pl.Float64}
    boxes = pl.DataFrame(rows, schema=schema | dict.fromkeys("xywh", pl.Float64))
    return boxes.with_columns(interpolated=pl.lit(False))


TRUTH = true_boxes(("a", 0, 10, 0.0), ("b", 5, 10, 100.0), ("c", 30, 5, 0.0))
COUNTED = counted_boxes(
    (1, 0, 4, 1.0),  # a
    (1, 6, 4, 1.0),  # a, linked
    (2, 5, 10, 101.0),  # b
    (3, 5, 3, 300.0),  # a false alarm counted as a polyp
    (2, 20, 3, 300.0),  # a false alarm linked to b
)


def test_figures_of_a_procedure_equal_a_count_by_hand() -> None:
    row = score_procedure("p", TRUTH, COUNTED)
    assert (row.polyps, row.detected_polyps, row.counted, row.false_polyps) == (3, 2, 3, 1)
    assert (row.tracklets, row.false_tracklets, row.mixed) == (3, 2, 0)
    figures = chain_figures([row, row])
    assert figures["polyps found"].value == pytest.approx(2 / 3)
    assert figures["false polyps"].value == 1
    assert figures["count error"].value == 0  # one missed, one false
    assert figures["FR"].value == 1
    assert figures["HOTA"].value is not None
    assert 0 < figures["HOTA"].value < 1


def test_a_tracklet_of_two_polyps_is_mixed_and_detects_the_longer() -> None:
    truth = true_boxes(("a", 0, 6, 0.0), ("b", 6, 4, 0.0))
    row = score_procedure("p", truth, counted_boxes((1, 0, 10, 0.0)))
    assert (row.detected_polyps, row.mixed, row.tracklets) == (1, 1, 1)
    row = score_procedure("p", truth, counted_boxes((1, 0, 30, 0.0)))  # mostly beside the polyps
    assert (row.detected_polyps, row.mixed, row.tracklets, row.false_tracklets) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("n_true", "x", "polyp"), [(2, 0.0, "a"), (1, 0.0, None), (4, 5.0, "a"), (4, 6.0, None)]
)
def test_a_tracklet_shows_a_polyp_if_half_of_its_boxes_overlap_it_by_0_3(
    n_true: int, x: float, polyp: str | None
) -> None:
    """Of four boxes of width 10; at an offset of 5 the IoU is 1/3, at 6 it is 1/4."""
    matched = match_tracklets(true_boxes(("a", 0, n_true, 0.0)), counted_boxes((1, 0, 4, x)))
    assert matched["polyp_id"].to_list() == [polyp]


def test_of_two_polyps_with_equal_overlap_always_the_same_one_is_matched() -> None:
    truth = true_boxes(("a", 0, 300, -3.0), ("b", 0, 300, 3.0))
    boxes = counted_boxes(*((1, 10 * k, 10, 0.0) for k in range(30)))
    first, *others = (match_tracklets(truth, boxes) for _ in range(4))
    assert first["polyp_id"].null_count() == 0
    assert all(first.equals(other) for other in others)


def test_interpolated_boxes_count_only_in_tracking() -> None:
    truth = true_boxes(("a", 0, 10, 0.0))
    gaps = counted_boxes((1, 0, 10, 0.0)).filter(pl.col("frame").is_in([0, 4, 9]))
    filled = fill_gaps(gaps)
    row_with_filled_gaps, row_with_gaps = (
        score_procedure("p", truth, boxes)
        for boxes in (filled, gaps.with_columns(interpolated=pl.lit(False)))
    )
    hota = [
        chain_figures([row])["HOTA"].value or 0 for row in (row_with_filled_gaps, row_with_gaps)
    ]
    assert hota == [pytest.approx(1), pytest.approx(0.3)]
    # Interpolated boxes beside the polyp do not make the tracklet a false alarm.
    elsewhere = filled.with_columns(x=pl.when("interpolated").then(500.0).otherwise("x"))
    assert score_procedure("p", truth, elsewhere).false_tracklets == 0


def test_tracking_prefers_detected_boxes_over_interpolated_ones_of_a_polyp() -> None:
    truth = true_boxes(("a", 0, 10, 0.0))
    filled = fill_gaps(counted_boxes((1, 0, 10, 0.0)))
    elsewhere: dict[str, Any] = {
        "x": 500.0,
        "tracklet": pl.lit(7, pl.Int64),
        "score": pl.lit(None, pl.Float64),
    }
    false_alarms = filled.with_columns(**elsewhere, interpolated=pl.lit(True))
    for boxes in (pl.concat([false_alarms, filled]), pl.concat([filled, false_alarms])):
        figures = chain_figures([score_procedure("p", truth, boxes)])
        assert figures["HOTA"].value == pytest.approx(1)


def test_procedures_without_detections_or_without_polyps_have_figures() -> None:
    undetected = score_procedure("p", TRUTH, counted_boxes())
    assert (undetected.detected_polyps, undetected.counted, undetected.polyps) == (0, 0, 3)
    without_polyps = score_procedure("p", TRUTH.clear(), COUNTED)
    assert (without_polyps.polyps, without_polyps.false_polyps, without_polyps.counted) == (0, 3, 3)
    assert chain_figures([without_polyps])["HOTA"].value is None  # NaN is no JSON
    figures = chain_figures([undetected])
    assert figures["FR"].value is None
    assert figures["count error"].value == 3
