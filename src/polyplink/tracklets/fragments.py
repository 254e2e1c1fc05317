"""From tracklets to fragments: samples of a fixed number of crops, with positions in time."""

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.box_runs import Spans, positions

LONGEST = 1000  # most crops of a fragment; 2 to 64 in the papers


def fragments(
    tracklets: pl.DataFrame,
    spans: Spans,
    frames: npt.NDArray[np.integer],
    *,
    stride: int = 4,
    length: int = 8,
    pad: bool = False,
) -> pl.DataFrame:
    """Cut each tracklet's crops into consecutive fragments without overlap.

    Args:
        tracklets: Tracklets with crop_first and n_crops (see `prepare`).
        spans: Spans of all detections.
        frames: (d,) frame of every sorted detection, indexed by `offset`.
        stride: Detections from one crop to the next.
        length: Crops in a fragment (L in the papers), 1 to `LONGEST`.
        pad: Whether to keep a tail shorter than `length`, in which `crop_rows` repeats the last
            crop. The papers drop it.

    Returns:
        One row per fragment: tracklet (row of its tracklet), procedure_id, polyp_id, crop_first
        (row in the procedure's crops), n (crops, `length` but for a tail), first_frame,
        position (of the first frame in the procedure's annotated span) and polyp_position (in
        the polyp's span, null if the polyp is unknown).

    Raises:
        PolyplinkError: If `length` is below 1, or above `LONGEST`.
    """
    if not 1 <= length <= LONGEST:
        raise PolyplinkError(f"fragments of {length} crops", f"give a length of 1 to {LONGEST}")
    crops = tracklets["n_crops"].to_numpy().astype(np.int64)  # n
    counts = -(-crops // length) if pad else crops // length  # n
    tracklet = np.repeat(np.arange(len(crops)), counts)  # fragments
    first = (np.arange(len(tracklet)) - np.repeat(np.cumsum(counts) - counts, counts)) * length
    start = tracklets["offset"].to_numpy()[tracklet] + first * stride
    table = tracklets[tracklet].select(
        pl.Series("tracklet", tracklet, dtype=pl.Int32),
        "procedure_id",
        "polyp_id",
        pl.col("crop_first") + pl.Series(first, dtype=pl.Int32),
        pl.Series("n", np.minimum(length, crops[tracklet] - first), dtype=pl.Int32),
        pl.Series("first_frame", frames[start], dtype=pl.Int32),
    )
    return table.with_columns(
        positions(table, spans.procedures), positions(table, spans.polyps, "polyp_position")
    )


def crop_rows(fragments: pl.DataFrame, length: int) -> npt.NDArray[np.int64]:
    """Rows of each fragment's crops in its procedure's array, the last one repeated in a tail.

    Args:
        fragments: A table from `fragments`, cut with the same length.
        length: Crops in a fragment.

    Returns:
        Rows (fragments, length).
    """
    within = np.arange(length)[None, :]  # 1 s
    last = fragments["n"].to_numpy().astype(np.int64)[:, None] - 1  # fragments 1
    first = fragments["crop_first"].to_numpy().astype(np.int64)[:, None]  # fragments 1
    rows: npt.NDArray[np.int64] = first + np.minimum(within, last)  # fragments s
    return rows
