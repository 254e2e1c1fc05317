from typing import Any

from hypothesis import given, settings

from polyplink.tracklets.build import build_tracklets
from polyplink.tracklets.spans import polyp_positions, procedure_positions, spans_of
from tests.tracklets.sample import detections, random_rows

Row = dict[str, Any]


def naive_position(frame: int, frames: list[int]) -> float:
    first, last = min(frames), max(frames)
    return (frame - first) / (last - first) if last > first else 0.0


@settings(deadline=None)
@given(random_rows(labelled=False))
def test_positions_equal_a_naive_loop(rows: list[Row]) -> None:
    table, tracklets = build_tracklets(detections(rows))
    spans = spans_of(table)
    of_procedure, of_polyp = [], []
    for tracklet in tracklets.iter_rows(named=True):
        same = [r for r in rows if r["procedure_id"] == tracklet["procedure_id"]]
        frames = [r["frame"] for r in same]
        of_procedure.append(naive_position(tracklet["first_frame"], frames))
        frames = [r["frame"] for r in same if r["polyp_id"] == tracklet["polyp_id"]]
        known = tracklet["polyp_id"] is not None
        of_polyp.append(naive_position(tracklet["first_frame"], frames) if known else None)
    assert procedure_positions(tracklets, spans).to_list() == of_procedure
    assert polyp_positions(tracklets, spans).to_list() == of_polyp


def test_spans_name_first_and_last_frames() -> None:
    box = {"x": 0.0, "y": 0.0, "w": 1.0, "h": 1.0, "procedure_id": "p"}
    rows = [(3, "a"), (9, "a"), (5, "b"), (12, None)]
    table = detections([{**box, "frame": frame, "polyp_id": polyp} for frame, polyp in rows])
    spans = spans_of(table)
    assert spans.procedures.rows() == [("p", 3, 12)]
    assert spans.polyps.rows() == [("p", "a", 3, 9), ("p", "b", 5, 5)]
