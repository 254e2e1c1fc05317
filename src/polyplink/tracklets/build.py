"""From detections to tracklets: runs of boxes that show one polyp without a break."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.boxes import overlap
from polyplink.tracklets.owners import Numbers, Owners, column_of, owners_of
from polyplink.tracklets.unlabelled import Ints, chains, link

Columns = tuple[npt.NDArray[np.float32], ...]  # x, y, w, h: d each
Least = tuple[int, float]  # largest gap in frames, smallest IoU

BOX = ("x", "y", "w", "h")


class Cuts(NamedTuple):
    """Tracklets, numbered by their first boxes; t of d boxes.

    Attributes:
        tracklet: (d,) whose each box is.
        first: (t,) row of the first box of each.
        n: (t,) boxes of each.
    """

    tracklet: Numbers
    first: Numbers
    n: Numbers


def build_tracklets(
    detections: pl.DataFrame, *, max_gap: int = 1, min_iou: float = 0.1
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build tracklets from detections.

    Detections of one polyp, in frame order, are cut wherever the next one is more than `max_gap`
    frames later or its IoU with the box before is below `min_iou` (NTSSL paper, section 3). Two
    boxes of one polyp in one frame are cut too: a tracklet has one box per frame. (The papers'
    program links them.) Detections without a polyp are linked by `unlabelled.link`.

    Args:
        detections: The table `polyplink.data.tables.DETECTIONS`, in any order.
        max_gap: Largest step in frames within a tracklet, at least 1.
        min_iou: Smallest IoU of neighbouring boxes, in [0, 1].

    Returns:
        The detections, sorted so that each tracklet is one run in frame order, and the tracklets,
        sorted by procedure and first frame: tracklet_id ("procedure:number", numbered in that
        order), procedure_id, polyp_id (null where unknown), first_frame, last_frame, n (boxes)
        and offset (row of the first box in the sorted detections).

    Raises:
        PolyplinkError: If `max_gap` or `min_iou` is out of range.
    """
    if max_gap < 1:
        raise PolyplinkError(f"max_gap is {max_gap}", "give 1 or more frames")
    if not 0.0 <= min_iou <= 1.0:
        raise PolyplinkError(f"min_iou is {min_iou}", "give a value in [0, 1]")
    detections = detections.rechunk()  # rows of many pieces are gathered several times slower
    frames = column_of(detections, "frame")  # d
    boxes = tuple(column_of(detections, name) for name in BOX)  # x, y, w, h: d each
    owners = owners_of(detections)
    lanes = _lanes(detections["polyp_id"], owners, frames, boxes, (max_gap, min_iou))  # d
    cuts = _cut(lanes, frames, boxes, (max_gap, min_iou))
    if cuts is None:
        in_time = detections[np.argsort(frames, kind="stable")]
        return build_tracklets(in_time, max_gap=max_gap, min_iou=min_iou)
    return _tables(detections, owners, frames, cuts)


def _lanes(
    polyps: pl.Series, owners: Owners, frames: Numbers, boxes: Columns, least: Least
) -> Numbers:
    """Whose each box is (d,): an owner's or, where no polyp is known, a chain's of linked boxes."""
    rows = np.flatnonzero(polyps.is_null().to_numpy()) if polyps.null_count() else np.arange(0)
    lanes = owners.number.copy()
    rows = rows[np.lexsort((frames[rows], lanes[rows]))]
    times = frames[rows].astype(np.int64)
    places = np.stack([column[rows] for column in boxes], axis=1)  # unknown 4
    edges = np.flatnonzero(np.diff(lanes[rows], prepend=-1, append=-1))
    for start, stop in pairwise(edges):
        max_gap, min_iou = least
        linked = link(times[start:stop], places[start:stop], max_gap=max_gap, min_iou=min_iou)
        lanes[rows[start:stop]] = len(owners.names) + start + chains(linked)
    return lanes


def _cut(lanes: Numbers, frames: Numbers, boxes: Columns, least: Least) -> Cuts | None:
    """Cut lanes into tracklets; None where a lane's boxes are not in time."""
    found = Cuts(*(np.empty(len(lanes), dtype=np.uint32) for _ in range(3)))
    tracklets = _walk(lanes, frames, boxes, least, found)
    if tracklets < 0:
        return None
    return Cuts(found.tracklet, found.first[:tracklets], found.n[:tracklets])


@njit(error_model="numpy")
def _walk(lanes: Numbers, frames: Numbers, boxes: Columns, least: Least, found: Cuts) -> int:
    """Follow all lanes at once, box by box, and fill in `found`.

    Returns how many tracklets there are, or -1 where a lane is not in time.
    """
    if not lanes.size:
        return 0
    last = np.full(lanes.max() + np.uint32(1), -1, dtype=np.int32)  # its row; -1: none yet
    held = np.empty((last.size, 4))  # its box
    # Taken apart once: each look into a tuple of arrays would count references.
    x, y, w, h = boxes
    max_gap, min_iou = least
    tracklet, first, n = found
    count = 0
    for k in range(lanes.size):
        lane = lanes[k]
        before = last[lane]
        gap = frames[k] - frames[before]
        if before >= 0 and gap < 0:
            return -1
        box = (np.float64(x[k]), np.float64(y[k]), np.float64(w[k]), np.float64(h[k]))
        other = (held[lane, 0], held[lane, 1], held[lane, 2], held[lane, 3])
        if before >= 0 and 1 <= gap <= max_gap and overlap(box, other) >= min_iou:
            tracklet[k] = tracklet[before]
        else:
            tracklet[k] = count
            first[count], n[count] = k, 0
            count += 1
        n[tracklet[k]] += 1
        last[lane] = k
        held[lane, 0], held[lane, 1], held[lane, 2], held[lane, 3] = box
    return count


@njit()
def _gather(tracklet: Numbers, begin: Ints, rows: Numbers) -> None:
    """Put the rows of each tracklet in a run, in `rows` (d,); `begin` (t,) becomes their ends."""
    for k in range(tracklet.size):
        rows[begin[tracklet[k]]] = k
        begin[tracklet[k]] += 1


def _tables(
    given: pl.DataFrame, owners: Owners, frames: Numbers, cuts: Cuts
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Bring each tracklet's boxes together, tracklets in order, and describe them."""
    owner = owners.number[cuts.first]  # t
    order = (owners.place[owner], frames[cuts.first], owners.procedure[owner])
    ranked = np.lexsort(order)  # t
    first, n, owner = cuts.first[ranked], cuts.n[ranked].astype(np.int64), owner[ranked]
    offset = np.cumsum(n) - n  # t
    begin = np.empty_like(offset)
    begin[ranked] = offset
    rows = np.empty(len(frames), dtype=np.uint32)
    _gather(cuts.tracklet, begin, rows)
    procedure = owners.procedure[owner]  # t
    number = np.arange(len(n)) - np.searchsorted(procedure, procedure)  # within its procedure
    tracklets = owners.names[owner].select(
        pl.concat_str("procedure_id", pl.lit(":"), _padded(number)).alias("tracklet_id"),
        "procedure_id",
        "polyp_id",
        pl.Series("first_frame", frames[first], dtype=pl.Int32),
        pl.Series("last_frame", frames[rows[offset + n - 1]], dtype=pl.Int32),
        pl.Series("n", n, dtype=pl.Int32),
        pl.Series("offset", offset, dtype=pl.Int64),
    )
    return given[rows], tracklets


def _padded(number: Ints) -> pl.Series:
    """Numbers (n,) as text of five digits or more; each that occurs is written once."""
    written = pl.Series(np.arange(number.max(initial=-1) + 1)).cast(pl.String).str.zfill(5)
    return written.gather(number)
