"""Fragments and their positions in time, against naive loops."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.box_runs import build_tracklets, positions, spans_of
from polyplink.tracklets.sampling import fragments, sample_crops
from polyplink.tracklets.settings import PrepareSettings
from tests.tracklets.sample import detections, random_rows

Row = dict[str, Any]


def polyp_rows(procedure: str, polyp: str | None, start: int, n: int, step: int) -> list[Row]:
    box = {"x": 0.0, "y": 0.0, "w": 9.0, "h": 9.0, "procedure_id": procedure, "polyp_id": polyp}
    return [{**box, "frame": start + step * k} for k in range(n)]


RUN = st.tuples(st.sampled_from("pq"), st.integers(0, 60), st.integers(1, 40), st.integers(1, 2))
RUNS = st.lists(RUN, min_size=1, max_size=5)


@given(RUNS, st.integers(1, 4), st.integers(1, 9))
def test_fragments_equal_a_naive_loop(
    runs: list[tuple[str, int, int, int]], stride: int, length: int
) -> None:
    rows: list[Row] = []
    for k, (procedure, start, n, step) in enumerate(runs):
        rows += polyp_rows(procedure, f"{procedure}{k}", start, n, step)
    table, tracklets = build_tracklets(detections(rows), PrepareSettings(max_gap=2))
    tracklets = sample_crops(tracklets, PrepareSettings(min_length=3, stride=stride))
    frames = table["frame"].to_numpy()
    spans = spans_of(table)
    actual = fragments(tracklets, spans, frames, stride=stride, length=length)

    expected = []
    crop_first = dict.fromkeys("pq", 0)
    for row, tracklet in enumerate(tracklets.iter_rows(named=True)):
        procedure, polyp = tracklet["procedure_id"], tracklet["polyp_id"]
        frames_of_polyp = [r["frame"] for r in rows if r["polyp_id"] == polyp]
        crops = sorted(frames_of_polyp)[::stride]
        frames_of_procedure = [r["frame"] for r in rows if r["procedure_id"] == procedure]
        for start in range(0, len(crops), length):
            part = crops[start : start + length]
            if len(part) < length:
                continue
            position = (part[0] - min(frames_of_procedure)) / max(
                max(frames_of_procedure) - min(frames_of_procedure), 1
            )
            polyp_position = (part[0] - min(frames_of_polyp)) / max(
                max(frames_of_polyp) - min(frames_of_polyp), 1
            )
            first = crop_first[procedure] + start
            expected.append(
                (row, procedure, polyp, first, len(part), part[0], position, polyp_position)
            )
        crop_first[procedure] += len(crops)

    assert actual.columns == [
        "tracklet",
        "procedure_id",
        "polyp_id",
        "crop_first",
        "n",
        "first_frame",
        "position",
        "polyp_position",
    ]
    assert actual.rows() == expected


@pytest.mark.parametrize("length", [0, 1001, 1_000_000_000])
def test_fragments_of_an_invalid_length_are_refused(length: int) -> None:
    table, tracklets = build_tracklets(detections([]))
    with pytest.raises(PolyplinkError, match="give a length of 1 to 1000"):
        fragments(tracklets, spans_of(table), table["frame"].to_numpy(), length=length)


def naive_position(frame: int, frames: list[int]) -> float:
    first, last = min(frames), max(frames)
    return (frame - first) / (last - first) if last > first else 0.0


@given(random_rows(labelled=False))
def test_positions_equal_a_naive_loop(rows: list[Row]) -> None:
    table, tracklets = build_tracklets(detections(rows))
    spans = spans_of(table)
    of_procedure, of_polyp = [], []
    for tracklet in tracklets.iter_rows(named=True):
        rows_of_procedure = [r for r in rows if r["procedure_id"] == tracklet["procedure_id"]]
        frames = [r["frame"] for r in rows_of_procedure]
        of_procedure.append(naive_position(tracklet["first_frame"], frames))
        frames = [r["frame"] for r in rows_of_procedure if r["polyp_id"] == tracklet["polyp_id"]]
        is_labelled = tracklet["polyp_id"] is not None
        of_polyp.append(naive_position(tracklet["first_frame"], frames) if is_labelled else None)
    assert positions(tracklets, spans.procedures).to_list() == of_procedure
    assert positions(tracklets, spans.polyps).to_list() == of_polyp
