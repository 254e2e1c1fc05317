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
    ordered = detections.sort(
        "procedure_id", "polyp_id", "frame", nulls_last=True, maintain_order=True
    )
    heads = _heads(ordered, max_gap, min_iou)  # d
    return _tables(ordered, heads)


def _heads(ordered: pl.DataFrame, max_gap: int, min_iou: float) -> Ints:
    """Row of the first box of each detection's tracklet: (d,)."""
    boxes = ordered.select(BOX).to_numpy()  # d 4
    rows = np.arange(len(ordered))
    begins = np.where(_cut(ordered, boxes, max_gap, min_iou), rows, 0)
    heads: Ints = np.maximum.accumulate(begins)
    for start, stop in _unlabelled_runs(ordered):
        frames = ordered["frame"][start:stop].to_numpy().astype(np.int64)
        linked = link(frames, boxes[start:stop], max_gap=max_gap, min_iou=min_iou)
        heads[start:stop] = start + chains(linked)
    return heads


def _cut(
    ordered: pl.DataFrame, boxes: npt.NDArray[np.floating], max_gap: int, min_iou: float
) -> npt.NDArray[np.bool_]:
    """Whether a tracklet begins at each row, as if all boxes were labelled: (d,)."""
    owner = ordered.select(
        (pl.col("procedure_id") == pl.col("procedure_id").shift())
        & pl.col("polyp_id").eq_missing(pl.col("polyp_id").shift())
    ).to_series()
    step = ordered["frame"].to_numpy()
    cut = np.ones(len(ordered), dtype=bool)
    gap = np.diff(step)
    near = owner.to_numpy()[1:].astype(bool) & (gap >= 1) & (gap <= max_gap)
    cut[1:] = ~near | (iou(boxes[1:], boxes[:-1]) < min_iou)
    return cut


def _unlabelled_runs(ordered: pl.DataFrame) -> list[tuple[int, int]]:
    """First and last-but-one row of each procedure's boxes without a polyp."""
    rows = (
        ordered.lazy()
        .select("procedure_id", "polyp_id", pl.int_range(pl.len()).alias("row"))
        .filter(pl.col("polyp_id").is_null())
        .group_by("procedure_id")
        .agg(pl.col("row").min().alias("start"), (pl.col("row").max() + 1).alias("stop"))
        .collect()
    )
    return list(zip(rows["start"].to_list(), rows["stop"].to_list(), strict=True))


def _tables(ordered: pl.DataFrame, heads: Ints) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number the tracklets, bring each one's boxes together and describe them."""
    firsts = np.flatnonzero(heads == np.arange(len(heads)))  # n
    ranked = (
        ordered.select("procedure_id", "frame", pl.int_range(pl.len()).alias("row"))[firsts]
        .sort("procedure_id", "frame", maintain_order=True)["row"]
        .to_numpy()
    )  # n
    place = np.zeros(len(heads), dtype=np.int64)
    place[ranked] = np.arange(len(ranked))
    tracklet = place[heads]  # d
    detections = ordered[np.argsort(tracklet, kind="stable")]
    n = np.bincount(tracklet, minlength=len(ranked))  # n
    offset = np.cumsum(n) - n  # n
    frames = detections["frame"].to_numpy()
    tracklets = detections[offset].select(
        _names(),
        "procedure_id",
        "polyp_id",
        pl.col("frame").alias("first_frame"),
        pl.Series("last_frame", frames[offset + n - 1], dtype=pl.Int32),
        pl.Series("n", n, dtype=pl.Int32),
        pl.Series("offset", offset, dtype=pl.Int64),
    )
    return detections, tracklets


def _names() -> pl.Expr:
    number = pl.int_range(pl.len()).over("procedure_id").cast(pl.String).str.zfill(5)
    return pl.concat_str("procedure_id", pl.lit(":"), number).alias("tracklet_id")
