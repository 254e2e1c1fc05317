"""From detections to tracklets: runs of boxes that show one polyp without a break."""

import numba
import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.errors import PolyplinkError
from polyplink.tracklets.boxes import Floats, overlap
from polyplink.tracklets.unlabelled import Ints, chains, link

Mask = npt.NDArray[np.bool_]

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
    begins = np.ones(len(order), dtype=np.bool_)
    _cut(owner, frames, boxes, (max_gap, min_iou), begins)
    heads: Ints = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))  # d
    for start, stop in _unlabelled_runs(detections["polyp_id"], order, owner):
        linked = link(frames[start:stop], boxes[start:stop], max_gap=max_gap, min_iou=min_iou)
        heads[start:stop] = start + chains(linked)
    return _tables(detections, order, frames, heads)


def _codes(names: pl.Series) -> Ints:
    """Place of every name among all, sorted; that of null is the last: (d,)."""
    begins = names.ne_missing(names.shift(1)).to_numpy(writable=True)
    begins[:1] = True
    if begins.sum() * 4 > len(names):  # short runs save nothing
        return _coded(names)
    heads = np.flatnonzero(begins)
    return np.repeat(_coded(names.gather(heads)), np.diff(heads, append=len(names)))


def _coded(names: pl.Series) -> Ints:
    """As `_codes`."""
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
    rising = _rising(procedure, frames)
    order = np.argsort(key, kind="stable") if rising else np.lexsort((frames, key))
    return order, pairs[order]


@numba.njit(cache=True, nogil=True)
def _rising(procedure: Ints, frames: Ints) -> bool:
    """Whether rows are by procedure and, within one, by frame; both are (d,)."""
    for k in range(1, procedure.size):
        if procedure[k] < procedure[k - 1]:
            return False
        if procedure[k] == procedure[k - 1] and frames[k] < frames[k - 1]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def _cut(owner: Ints, frames: Ints, boxes: Floats, least: tuple[int, float], begins: Mask) -> None:
    """Mark in begins (d,) where a tracklet begins, as if all boxes were labelled.

    owner and frames are (d,), boxes (d, 4); `least` is the largest gap and the smallest IoU.
    """
    max_gap, min_iou = least
    for k in range(1, owner.size):
        gap = frames[k] - frames[k - 1]
        near = owner[k] == owner[k - 1] and 1 <= gap <= max_gap
        begins[k] = not near or overlap(boxes, k, k - 1) < min_iou


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
    narrow = np.uint16 if len(ranked) < 1 << 16 else np.int64  # 16 bits are sorted by radix
    rows = np.argsort(tracklet.astype(narrow), kind="stable")  # d
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
