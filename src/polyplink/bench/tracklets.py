"""Boxes to tracklets, against a loop over identities and boxes."""

from collections.abc import Callable

import numpy as np
import polars as pl

from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.data.tables import DETECTIONS, check
from polyplink.tracklets import build_tracklets

BOXES = 351_264  # REAL-Colon: boxes of 132 polyps in 60 procedures
POLYPS = 132
PROCEDURES = 60
VIEW = 130  # boxes between two breaks, on average
REPEATS = 15  # a call takes some 20 ms, which others on the machine easily double

Row = tuple[str, int, float, float, float, float, str]
Described = tuple[str, str, int, int, int]


def synthetic_detections(size: int, seed: int = 0) -> pl.DataFrame:
    """Boxes that drift, with gaps in time and jumps in place.

    Args:
        size: Boxes; polyps and procedures shrink with it, so that views stay as long.
        seed: Of the random numbers.

    Returns:
        A table of detections, by procedure and frame as in a `DataSet`.
    """
    rng = np.random.default_rng(seed)
    polyps = max(1, round(POLYPS * size / BOXES))
    procedures = max(1, round(PROCEDURES * size / BOXES))
    polyp = np.sort(rng.integers(0, polyps, size))
    begin = np.searchsorted(polyp, polyp)
    gap = rng.random(size) < 1 / VIEW
    frame = np.arange(size) - begin + np.cumsum(gap * 50) - np.cumsum(gap * 50)[begin]
    jump = np.where(rng.random(size) < 1 / VIEW, 1, 0) * 400
    place = (np.cumsum(rng.normal(0, 2, size) + jump) % 1500).astype(np.float32)
    table = pl.DataFrame(
        {
            "procedure_id": [f"{k % procedures:03d}" for k in polyp],
            "frame": frame,
            "x": place,
            "y": place * 0.5,
            "w": rng.uniform(90, 110, size),
            "h": rng.uniform(90, 110, size),
            "polyp_id": [f"{k % procedures:03d}_{k}" for k in polyp],
            "image": [f"{k:06d}.jpg" for k in frame],
        }
    )
    return check(table, DETECTIONS, "detections").sort("procedure_id", "frame")


def naive_tracklets(rows: list[Row]) -> list[Described]:
    """The rival: for every polyp, scan all boxes for its own, then walk them.

    Args:
        rows: procedure, frame, x, y, w, h, polyp of every box.

    Returns:
        procedure, polyp, first frame, last frame and boxes of every tracklet.
    """
    found = []
    for polyp in {row[6] for row in rows}:
        own = sorted((row for row in rows if row[6] == polyp), key=lambda row: row[1])
        first = previous = own[0]
        n = 1
        for row in own[1:]:
            if row[1] - previous[1] == 1 and _iou(previous, row) >= 0.1:
                n += 1
            else:
                found.append((first[0], polyp, first[1], previous[1], n))
                first, n = row, 1
            previous = row
        found.append((first[0], polyp, first[1], previous[1], n))
    return found


def _iou(a: Row, b: Row) -> float:
    width = min(a[2] + a[4], b[2] + b[4]) - max(a[2], b[2])
    height = min(a[3] + a[5], b[3] + b[5]) - max(a[3], b[3])
    shared = max(width, 0.0) * max(height, 0.0)
    return shared / (a[4] * a[5] + b[4] * b[5] - shared)


def _call(size: int) -> Callable[[], object]:
    table = synthetic_detections(size)
    return lambda: build_tracklets(table)


def run(size: int = BOXES) -> BenchResult:
    """Measure `build_tracklets`; size is boxes, at least 8.

    The rival works as the papers' program does: one polyp after another, each by a scan of all
    boxes. It may start from a list of rows, as that program holds them, and computes IoU without
    a library.
    """
    table = synthetic_detections(size)
    rows = table.select("procedure_id", "frame", "x", "y", "w", "h", "polyp_id").rows()
    columns = ("procedure_id", "polyp_id", "first_frame", "last_frame", "n")
    expected: list[list[Described]] = []
    rival_s = best_of(lambda: expected.append(naive_tracklets(rows)), 2)
    found = build_tracklets(table)[1].select(columns).rows()
    ours_s = best_of(lambda: build_tracklets(table), REPEATS)

    return against(
        "tracklets",
        "a loop over polyps and boxes",
        size,
        ours_s=ours_s,
        rival_s=rival_s,
        exponent=growth(_call, size, REPEATS),
        equal=sorted(found) == sorted(expected[0]),
    )
