"""Which boxes of tracklets have crops, and the rows of these crops in their procedure's array.

Every `stride`-th box of a tracklet has a crop, from its first box on. A tracklet is cut where the
frame of a crop is broken, and into fragments of a fixed number of crops.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.box_runs import USUAL_FPS, Spans, positions
from polyplink.tracklets.crops import BrokenFrame
from polyplink.tracklets.settings import PrepareSettings

LONGEST = 1000  # most crops of a fragment; 2 to 64 in the papers


def kept_tracklets(
    tracklets: pl.DataFrame,
    settings: PrepareSettings,
    fps: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """Tracklets of at least `min_length` boxes; of `shortest_track` if the polyp is unknown.

    Args:
        tracklets: A table from `build_tracklets`.
        settings: Settings with `min_length` and `min_seconds`.
        fps: Frames per second of each procedure, see `frame_rates`; 25 if not in it.
    """
    shortest = {name: settings.shortest_track(rate) for name, rate in (fps or {}).items()}
    least = pl.col("procedure_id").replace_strict(
        shortest, default=settings.shortest_track(USUAL_FPS), return_dtype=pl.Float64
    )
    frames = pl.col("last_frame") - pl.col("first_frame") + 1
    is_long = pl.when(pl.col("polyp_id").is_not_null()).then(pl.col("n") >= settings.min_length)
    return tracklets.filter(is_long.otherwise(frames >= least))


def sample_crops(
    tracklets: pl.DataFrame,
    settings: PrepareSettings,
    fps: Mapping[str, float] | None = None,
) -> pl.DataFrame:
    """Keep tracklets that are long enough, and assign them rows of crops.

    Args:
        tracklets: A table from `build_tracklets`.
        settings: Settings with `min_length`, `min_seconds` and `stride`.
        fps: Frames per second of each procedure, see `frame_rates`; 25 if not in it.

    Returns:
        The tracklets of `kept_tracklets`, with crop_first (row in the procedure's crops) and
        n_crops (every `stride`-th box has a crop, from the first on).
    """
    n_crops = (pl.col("n") + settings.stride - 1) // settings.stride
    first = (n_crops.cum_sum() - n_crops).over("procedure_id")
    return kept_tracklets(tracklets, settings, fps).with_columns(
        crop_first=first.cast(pl.Int32), n_crops=n_crops.cast(pl.Int32)
    )


def cut_tracklets(
    tracklets: pl.DataFrame,
    frames: pl.Series,
    broken: Mapping[str, Sequence[BrokenFrame]],
    *,
    stride: int,
    min_length: int,
) -> pl.DataFrame:
    """Cut tracklets at broken frames.

    A part begins at a crop and ends before the broken one, so that the other crops keep their
    rows; boxes between a broken crop and the next are lost. Only frames with a crop can be known to
    be broken.

    Args:
        tracklets: A table from `sample_crops`.
        frames: Frame number of each detection, indexed by `offset`.
        broken: Procedure -> its broken frames.
        stride: Boxes from one crop to the next.
        min_length: Boxes that a part of a known polyp must have to be kept.

    Returns:
        The table with the parts; those after the first are named `ID.1`, `ID.2`, ...
    """
    bad = {procedure: {row.frame for row in rows} for procedure, rows in broken.items()}
    rows: list[dict[str, object]] = []
    for row in tracklets.iter_rows(named=True):
        offset, n = row["offset"], row["n"]
        bad_frames = bad.get(row["procedure_id"], set())
        crop_frames = frames[offset : offset + n : stride].to_list() if bad_frames else []
        cuts = [k for k, frame in enumerate(crop_frames) if frame in bad_frames]
        if not cuts:
            rows.append(row)
            continue
        shortest = 1 if row["polyp_id"] is None else min_length
        starts, stops = [0, *(k + 1 for k in cuts)], [*cuts, row["n_crops"]]
        for number, (first, last) in enumerate(zip(starts, stops, strict=True)):
            if first == last:
                continue
            part = part_of_tracklet(row, frames, first, last, stride)
            if part["n"] >= shortest:
                end = f".{number}" if number else ""
                rows.append(part | {"tracklet_id": row["tracklet_id"] + end})
    return pl.DataFrame(rows, schema=tracklets.schema)


def part_of_tracklet(
    row: Mapping[str, Any], frames: pl.Series, first: int, last: int, stride: int
) -> dict[str, Any]:
    """The row of the part of a tracklet with some of its crops.

    Args:
        row: The row of the tracklet in a table from `sample_crops`.
        frames: Frame number of each detection, indexed by `offset`.
        first: First crop of the part, from 0; the part begins at its box.
        last: Crop at which the part ends, exclusive.
        stride: Boxes from one crop to the next.
    """
    start, stop = first * stride, min(last * stride, row["n"])
    return {
        **row,
        "first_frame": frames[row["offset"] + start],
        "last_frame": frames[row["offset"] + stop - 1],
        "n": stop - start,
        "offset": row["offset"] + start,
        "crop_first": row["crop_first"] + first,
        "n_crops": last - first,
    }


def fragments(
    tracklets: pl.DataFrame,
    spans: Spans,
    frames: npt.NDArray[np.integer],
    *,
    stride: int = 4,
    length: int = 8,
) -> pl.DataFrame:
    """Cut each tracklet's crops into consecutive fragments without overlap.

    A tail that is too short for a fragment is dropped, as in the papers.

    Args:
        tracklets: Tracklets with crop_first and n_crops (see `prepare`).
        spans: Spans of all detections.
        frames: (d,) frame of every sorted detection, indexed by `offset`.
        stride: Detections from one crop to the next.
        length: Crops in a fragment (L in the papers), 1 to `LONGEST`.

    Returns:
        One row per fragment: tracklet (row of its tracklet), procedure_id, polyp_id, crop_first
        (row in the procedure's crops), n (crops, always `length`), first_frame,
        position (of the first frame in the procedure's annotated span) and polyp_position (in
        the polyp's span, null if the polyp is unknown).

    Raises:
        PolyplinkError: If `length` is below 1, or above `LONGEST`.
    """
    if not 1 <= length <= LONGEST:
        raise PolyplinkError(f"fragments of {length} crops", f"give a length of 1 to {LONGEST}")
    crops = tracklets["n_crops"].to_numpy().astype(np.int64)  # n
    counts = crops // length  # n
    tracklet = np.repeat(np.arange(len(crops)), counts)  # fragments
    first = (np.arange(len(tracklet)) - np.repeat(np.cumsum(counts) - counts, counts)) * length
    start = tracklets["offset"].to_numpy()[tracklet] + first * stride
    table = tracklets[tracklet].select(
        pl.Series("tracklet", tracklet, dtype=pl.Int32),
        "procedure_id",
        "polyp_id",
        pl.col("crop_first") + pl.Series(first, dtype=pl.Int32),
        pl.lit(length, pl.Int32).alias("n"),
        pl.Series("first_frame", frames[start], dtype=pl.Int32),
    )
    return table.with_columns(
        positions(table, spans.procedures), positions(table, spans.polyps, "polyp_position")
    )
