"""Places at which a detector may have missed a polyp."""

from typing import Any

import polars as pl

from polyplink.data.tables import DETECTIONS
from polyplink.serve.possible_misses import MOST, Place, possible_misses
from polyplink.tracklets.settings import TrackSettings

TRACKS = TrackSettings(high=0.5, low=0.3)


def boxes_of(*rows: tuple[int, float, float, bool], **columns: Any) -> pl.DataFrame:
    """Boxes of 20 by 20 pixels: frame, left, score, and whether the only tracklet has them."""
    table = {
        "procedure_id": ["v"] * len(rows),
        "frame": [row[0] for row in rows],
        "x": [row[1] for row in rows],
        "y": [40.0] * len(rows),
        "w": [20.0] * len(rows),
        "h": [20.0] * len(rows),
        "score": [row[2] for row in rows],
        "polyp_id": [None] * len(rows),
        "image": [None] * len(rows),
    }
    types = {name: column.dtype for name, column in DETECTIONS.items()}
    boxes = pl.DataFrame(table | columns, types)
    tracklet = [0 if row[3] else None for row in rows]
    return boxes.with_columns(tracklet=pl.Series(tracklet, dtype=pl.Int64))


def test_places_are_the_best_boxes_of_the_likeliest_tracks_of_unused_boxes() -> None:
    tracked = [(frame, 100.0, 0.9, True) for frame in range(20)]
    beside = [(frame, 105.0, 0.45, False) for frame in range(20)]  # on a box of a tracklet
    faint = [(frame, 300.0, 0.2 + frame / 100, False) for frame in range(5)]
    single = [(40, 500.0, 0.7, False)]
    boxes = boxes_of(*single, *faint, *beside, *tracked)
    assert possible_misses(boxes, TRACKS, {"v": 25.0}, {}) == [
        Place(4, (300.0, 40.0, 20.0, 20.0)),
        Place(40, (500.0, 40.0, 20.0, 20.0)),
    ]
    # A track of several faint boxes comes before a single one; the page has them in time.
    many = [(100 + 50 * k, 300.0, 0.7 + k / 100, False) for k in range(MOST)]
    places = possible_misses(boxes_of(*faint, *many), TRACKS, {"v": 25.0}, {})
    assert [place.frame for place in places] == [4, *(100 + 50 * k for k in range(1, MOST))]


def test_a_faint_box_in_a_gap_of_a_counted_view_is_no_place() -> None:
    before, after = (0, 100.0, 0.9, True), (10, 200.0, 0.9, True)
    in_gap = [(5, 150.0, 0.2, False), (5, 100.0, 0.1, False)]  # on the view's way, and beside it
    later = (11, 210.0, 0.1, False)
    assert possible_misses(boxes_of(before, *in_gap, later, after), TRACKS, {"v": 25.0}, {}) == [
        Place(5, (100.0, 40.0, 20.0, 20.0)),
        Place(11, (210.0, 40.0, 20.0, 20.0)),
    ]


def test_each_place_has_a_frame_of_its_own() -> None:
    left = [(frame, 100.0, 0.2 + frame / 100, False) for frame in range(5)]
    right = [(frame, 400.0, 0.1 + frame / 100, False) for frame in range(5)]
    single = [(4, 700.0, 0.2, False)]
    assert possible_misses(boxes_of(*left, *right, *single), TRACKS, {"v": 25.0}, {}) == [
        Place(3, (400.0, 40.0, 20.0, 20.0)),
        Place(4, (100.0, 40.0, 20.0, 20.0)),
    ]


def test_annotated_boxes_and_boxes_without_a_score_are_no_places() -> None:
    rows = [(frame, 300.0, 0.4, False) for frame in range(5)]
    assert len(possible_misses(boxes_of(*rows), TRACKS, {"v": 25.0}, {})) == 1
    assert possible_misses(boxes_of(*rows, polyp_id=["p"] * 5), TRACKS, {"v": 25.0}, {}) == []
    assert possible_misses(boxes_of(*rows, score=[None] * 5), TRACKS, {"v": 25.0}, {}) == []
    assert possible_misses(boxes_of(), TRACKS, {"v": 25.0}, {}) == []
