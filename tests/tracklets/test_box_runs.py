"""Building tracklets from boxes, against naive loops, and filling gaps."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

from polyplink.tracklets.box_runs import Box, _owners, build_tracklets, fill_gaps, overlap
from polyplink.tracklets.settings import PrepareSettings
from polyplink.tracklets.tracks import Tracker
from tests.tracklets.sample import detections, random_rows

Row = dict[str, Any]
Key = tuple[str, int, float, float, float, float, str | None]


def key(row: Row) -> Key:
    return tuple(row[k] for k in ("procedure_id", "frame", "x", "y", "w", "h", "polyp_id"))


def as_box(row: Row) -> Box:
    return row["x"], row["y"], row["w"], row["h"]


def iou(a: Box, b: Box) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


SIDE, PLACE = st.floats(0.5, 500, width=32), st.floats(-300, 900, width=32)
BOX = st.tuples(PLACE, PLACE, SIDE, SIDE)


@given(BOX, BOX)
def test_overlap_equals_its_definition(first: Box, second: Box) -> None:
    assert overlap(first, second) == pytest.approx(min(iou(first, second), 1.0), abs=1e-9)


def naive_labelled(rows: list[Row], max_gap: int, min_iou: float) -> list[list[Row]]:
    tracklets: list[list[Row]] = []
    for polyp in {(row["procedure_id"], row["polyp_id"]) for row in rows}:
        boxes_of_polyp = [row for row in rows if (row["procedure_id"], row["polyp_id"]) == polyp]
        last: Row | None = None
        for row in sorted(boxes_of_polyp, key=lambda row: row["frame"]):
            step = row["frame"] - last["frame"] if last else 0
            is_continued = last is not None and 1 <= step <= max_gap
            if last is None or not is_continued or iou(as_box(last), as_box(row)) < min_iou:
                tracklets.append([])
            tracklets[-1].append(row)
            last = row
    return tracklets


def tracks_of(rows: list[Row]) -> list[list[Row]]:
    """Tracks of each procedure by the tracker; a box that it leaves out is a separate track."""
    tracks: dict[tuple[str, int], list[Row]] = {}
    for procedure in {row["procedure_id"] for row in rows}:
        boxes_of_procedure = [row for row in rows if row["procedure_id"] == procedure]
        boxes_of_procedure.sort(key=lambda row: row["frame"])
        frames = np.array([row["frame"] for row in boxes_of_procedure], dtype=np.int64)
        boxes = np.array([as_box(row) for row in boxes_of_procedure], dtype=np.float64).reshape(
            -1, 4
        )
        scores = np.array([row.get("score", 1.0) for row in boxes_of_procedure])
        numbers = Tracker(25.0).update(frames, boxes, scores).tolist()
        for k, (row, number) in enumerate(zip(boxes_of_procedure, numbers, strict=True)):
            tracks.setdefault((procedure, number if number >= 0 else -k - 1), []).append(row)
    return list(tracks.values())


def built_tracklets(rows: list[Row], max_gap: int, min_iou: float) -> list[list[Key]]:
    settings = PrepareSettings(max_gap=max_gap, min_iou=min_iou)
    ordered, tracklets = build_tracklets(detections(rows), settings)
    boxes = [key(row) for row in ordered.iter_rows(named=True)]
    return [boxes[offset : offset + n] for offset, n in tracklets.select("offset", "n").iter_rows()]


@given(random_rows(labelled=True), st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_labelled_tracklets_equal_a_naive_loop(
    rows: list[Row], max_gap: int, min_iou: float
) -> None:
    expected = [[key(row) for row in t] for t in naive_labelled(rows, max_gap, min_iou)]
    assert sorted(built_tracklets(rows, max_gap, min_iou)) == sorted(expected)


@given(random_rows(labelled=False), st.sampled_from([0.05, 0.3, 0.9]))
def test_boxes_without_a_polyp_are_tracked_separately(rows: list[Row], score: float) -> None:
    rows = [row | {"score": score if k % 3 else 1.0} for k, row in enumerate(rows)]
    labelled = [row for row in rows if row["polyp_id"] is not None]
    unlabelled = [row for row in rows if row["polyp_id"] is None]
    expected = naive_labelled(labelled, 1, 0.1) + tracks_of(unlabelled)
    keys = [[key(row) for row in tracklet] for tracklet in expected]
    assert sorted(built_tracklets(rows, 1, 0.1), key=repr) == sorted(keys, key=repr)


@given(random_rows(labelled=True), st.randoms(use_true_random=False))
def test_tracklets_do_not_depend_on_the_order_of_rows(rows: list[Row], random: object) -> None:
    # One box per polyp and frame, because among several the order of rows decides.
    distinct = {(r["procedure_id"], r["polyp_id"], r["frame"]): r for r in rows}
    rows = list(distinct.values())
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    pieces = pl.concat([detections(shuffled[:3]), detections(shuffled[3:])], rechunk=False)
    first, second = build_tracklets(detections(rows)), build_tracklets(pieces)
    assert_frame_equal(first[1], second[1])
    assert_frame_equal(first[0], second[0])


def run(frames: list[int], polyp: str | None = "a", procedure: str = "p") -> list[Row]:
    box = {"x": 0.0, "y": 0.0, "w": 9.0, "h": 9.0, "polyp_id": polyp}
    return [{"procedure_id": procedure, "frame": frame, **box} for frame in frames]


def test_tracklets_are_named_by_procedure_in_order_of_their_first_frame() -> None:
    rows = run([5, 6], "a") + run([0, 1, 2], "b") + run([9], "a") + run([3], None, "q")
    tracklets = build_tracklets(detections(rows))[1]
    assert tracklets["tracklet_id"].to_list() == ["p:00000", "p:00001", "p:00002", "q:00000"]
    assert tracklets["polyp_id"].to_list() == ["b", "a", "a", None]
    assert tracklets["n"].to_list() == [3, 2, 1, 1]
    assert tracklets.schema == pl.Schema(
        {
            "tracklet_id": pl.String(),
            "procedure_id": pl.String(),
            "polyp_id": pl.String(),
            "first_frame": pl.Int32(),
            "last_frame": pl.Int32(),
            "n": pl.Int32(),
            "offset": pl.Int64(),
        }
    )


NAMES = st.text("ab\0é", max_size=3)


@given(st.lists(st.tuples(NAMES, st.none() | NAMES), max_size=40), st.booleans())
def test_owners_are_distinguished_even_if_hashes_collide(
    pairs: list[tuple[str, str | None]], hashes_collide: bool
) -> None:
    schema = {"procedure_id": pl.String, "polyp_id": pl.String}
    table = pl.DataFrame(pairs, schema=schema, orient="row")
    with pytest.MonkeyPatch.context() as patch:
        if hashes_collide:
            patch.setattr(pl.Expr, "hash", lambda self: self.is_null().cast(pl.UInt64) * 0)
        assert _owners(table).tolist() == [pairs.index(pair) for pair in pairs]


@given(st.lists(st.sets(st.integers(0, 20), min_size=1), max_size=4), st.integers(0, 99))
def test_filled_gaps_equal_interpolation_by_numpy(tracklets: list[set[int]], seed: int) -> None:
    rows = [(frame, k) for k, frames in enumerate(tracklets) for frame in sorted(frames)]
    schema = {"frame": pl.Int32, "tracklet": pl.Int32}
    sides = np.random.default_rng(seed).uniform(1, 99, (len(rows), 4)).astype(np.float32)
    boxes = pl.DataFrame(rows, schema, orient="row").with_columns(
        *(pl.Series(name, sides[:, k]) for k, name in enumerate("xywh")), score=0.9
    )
    filled = fill_gaps(boxes)
    assert_frame_equal(filled.filter(~pl.col("interpolated")).drop("interpolated"), boxes)
    interpolated = filled.filter("interpolated")
    assert interpolated["score"].is_null().all()
    for k, frames in enumerate(tracklets):
        detected, added = boxes.filter(tracklet=k), interpolated.filter(tracklet=k)
        assert added["frame"].to_list() == sorted(set(range(min(frames), max(frames))) - frames)
        for name in "xywh":
            expected = np.interp(added["frame"], detected["frame"], detected[name])
            np.testing.assert_allclose(added[name], expected, rtol=1e-5)
