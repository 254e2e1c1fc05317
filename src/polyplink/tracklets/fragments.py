"""From tracklets to fragments: samples of a fixed number of crops, with positions in time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.errors import PolyplinkError

LONGEST = 1000  # most crops of a fragment; 2 to 64 in the papers


@dataclass(frozen=True)
class Spans:
    """First and last annotated frames.

    Attributes:
        procedures: procedure_id, first_frame, last_frame: over all detections of the procedure.
        polyps: procedure_id, polyp_id, first_frame, last_frame: over all detections of the polyp.
    """

    procedures: pl.DataFrame
    polyps: pl.DataFrame


def spans_of(detections: pl.DataFrame) -> Spans:
    """The spans of all detections, including those of tracklets that are too short to keep.

    Args:
        detections: The table `polyplink.data.tables.DETECTIONS`.

    Returns:
        Both tables, sorted by their ids.
    """
    ends = {"first_frame": pl.col("frame").min(), "last_frame": pl.col("frame").max()}
    polyp = ["procedure_id", "polyp_id"]
    return Spans(
        procedures=detections.group_by("procedure_id").agg(**ends).sort("procedure_id"),
        polyps=detections.drop_nulls("polyp_id").group_by(polyp).agg(**ends).sort(polyp),
    )


def positions(rows: pl.DataFrame, spans: pl.DataFrame, name: str = "position") -> pl.Series:
    """Position of each row's first frame in the annotated span of its procedure or polyp.

    Args:
        rows: Any table with the ids of `spans` and first_frame (tracklets, fragments).
        spans: `Spans.procedures` or `Spans.polyps` of the detections of the rows.
        name: Name of the result.

    Returns:
        Float64 in [0, 1]; 0 if the span is a single frame, null if the polyp is unknown.
    """
    keys = [key for key in spans.columns if key.endswith("_id")]
    length = pl.col("last_frame") - pl.col("first_frame")
    spans = spans.select(*keys, span_first="first_frame", length=length)
    joined = rows.select(*keys, "first_frame").join(
        spans, on=keys, how="left", maintain_order="left"
    )
    # numpy's division is correctly rounded; polars may multiply by the reciprocal and exceed 1.
    since = (joined["first_frame"] - joined["span_first"]).cast(pl.Float64).to_numpy()
    lengths = joined["length"].cast(pl.Float64).to_numpy()
    position = np.divide(since, lengths, out=since * 0.0, where=lengths > 0)
    return pl.Series(name, position, dtype=pl.Float64).fill_nan(None)


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
