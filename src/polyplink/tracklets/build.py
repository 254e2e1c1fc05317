"""From detections to tracklets: runs of boxes that show one polyp without a break."""

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.errors import PolyplinkError
from polyplink.tracklets.boxes import iou
from polyplink.tracklets.unlabelled import Ints, chains, link

BOX = ("x", "y", "w", "h")


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
    order, owner = _order(detections)  # d
    frames = detections["frame"].to_numpy().astype(np.int64)[order]
    boxes = np.stack([detections[name].to_numpy()[order] for name in BOX], axis=1)  # d 4
    begins = _cut(owner, frames, boxes, max_gap, min_iou)
    heads: Ints = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))  # d
    for start, stop in _unlabelled_runs(detections["polyp_id"], order, owner):
        linked = link(frames[start:stop], boxes[start:stop], max_gap=max_gap, min_iou=min_iou)
        heads[start:stop] = start + chains(linked)
    return _tables(detections, order, frames, heads)


def _codes(names: pl.Series) -> Ints:
    """Place of every name among all, sorted; that of null is the last: (d,)."""
    # Hashed, not sorted, so that few strings are ever compared.
    hashed = names.cast(pl.Categorical).to_physical().cast(pl.Int64)
    known = hashed.drop_nulls().to_numpy()
    unknown = int(known.max(initial=-1)) + 1
    code = hashed.fill_null(unknown).to_numpy()  # d
    row = np.full(unknown + 1, -1)
    row[code[::-1]] = np.arange(len(code))[::-1]  # the first row of each code
    present = np.flatnonzero(row >= 0)
    rank = names.gather(row[present]).rank("dense").fill_null(len(present) + 1).to_numpy()
    place = np.zeros(unknown + 1, dtype=np.int64)
    place[present] = np.argsort(np.argsort(rank))
    return np.asarray(place[code])


def _order(detections: pl.DataFrame) -> tuple[Ints, Ints]:
    """Rows by procedure, polyp and frame, null last, and whose each of them is: (d,), (d,).

    Owners are numbers of pairs of procedure and polyp, rising, those of null included.
    """
    procedure, polyp = _codes(detections["procedure_id"]), _codes(detections["polyp_id"])
    if not len(procedure):
        return procedure, procedure
    pairs = procedure * (polyp.max() + 1) + polyp
    # Numpy sorts 16-bit numbers by radix, in linear time.
    key = pairs.astype(np.uint16) if pairs.max() < 1 << 16 else pairs
    frames = detections["frame"].to_numpy()
    in_time = bool((np.diff(frames) >= 0)[np.diff(procedure) == 0].all())
    rising = in_time and bool((np.diff(procedure) >= 0).all())
    order = np.argsort(key, kind="stable") if rising else np.lexsort((frames, key))
    return order, pairs[order]


def _cut(
    owner: Ints, frames: Ints, boxes: npt.NDArray[np.floating], max_gap: int, min_iou: float
) -> npt.NDArray[np.bool_]:
    """Whether a tracklet begins at each row, as if all boxes were labelled: (d,)."""
    cut = np.ones(len(owner), dtype=bool)
    gap = np.diff(frames)
    near = (np.diff(owner) == 0) & (gap >= 1) & (gap <= max_gap)
    cut[1:] = ~near | (iou(boxes[1:], boxes[:-1]) < min_iou)
    return cut


def _unlabelled_runs(polyps: pl.Series, order: Ints, owner: Ints) -> list[tuple[int, int]]:
    """First and last-but-one ordered row of each procedure's boxes without a polyp."""
    rows = np.flatnonzero(polyps.is_null().to_numpy()[order])
    found, start, count = np.unique(owner[rows], return_index=True, return_counts=True)
    return [
        (int(rows[s]), int(rows[s]) + int(c)) for _, s, c in zip(found, start, count, strict=True)
    ]


def _tables(
    given: pl.DataFrame, order: Ints, frames: Ints, heads: Ints
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number the tracklets, bring each one's boxes together and describe them."""
    firsts = np.flatnonzero(heads == np.arange(len(heads)))  # n
    procedure = _codes(given["procedure_id"].gather(order[firsts]))  # n
    ranked = firsts[np.lexsort((frames[firsts], procedure))]  # n
    place = np.zeros(len(heads), dtype=np.int64)
    place[ranked] = np.arange(len(ranked))
    tracklet = place[heads]  # d
    rows = np.argsort(tracklet, kind="stable")  # d
    detections = given[order[rows]]
    n = np.bincount(tracklet, minlength=len(ranked))  # n
    offset = np.cumsum(n) - n  # n
    times = frames[rows]
    tracklets = detections[offset].select(
        _names(),
        "procedure_id",
        "polyp_id",
        pl.col("frame").alias("first_frame"),
        pl.Series("last_frame", times[offset + n - 1], dtype=pl.Int32),
        pl.Series("n", n, dtype=pl.Int32),
        pl.Series("offset", offset, dtype=pl.Int64),
    )
    return detections, tracklets


def _names() -> pl.Expr:
    number = pl.int_range(pl.len()).over("procedure_id").cast(pl.String).str.zfill(5)
    return pl.concat_str("procedure_id", pl.lit(":"), number).alias("tracklet_id")
