"""Spans: where in time a procedure and each of its polyps were annotated."""

from dataclasses import dataclass

import numpy as np
import polars as pl


@dataclass(frozen=True)
class Spans:
    """First and last annotated frames.

    Attributes:
        procedures: procedure_id, first_frame, last_frame: over all detections of the procedure.
        polyps: procedure_id, polyp_id, first_frame, last_frame: over all those of the polyp.
    """

    procedures: pl.DataFrame
    polyps: pl.DataFrame


def spans_of(detections: pl.DataFrame) -> Spans:
    """Measure the spans, over all detections: also those of tracklets too short to keep.

    Args:
        detections: The table `polyplink.data.tables.DETECTIONS`.

    Returns:
        Both tables, sorted by their ids.
    """
    ends = (
        pl.col("frame").min().alias("first_frame"),
        pl.col("frame").max().alias("last_frame"),
    )
    polyps = detections.filter(pl.col("polyp_id").is_not_null())
    return Spans(
        procedures=detections.group_by("procedure_id").agg(ends).sort("procedure_id"),
        polyps=polyps.group_by("procedure_id", "polyp_id")
        .agg(ends)
        .sort("procedure_id", "polyp_id"),
    )


def procedure_positions(rows: pl.DataFrame, spans: Spans) -> pl.Series:
    """Where each row's first frame lies in its procedure's annotated span.

    Args:
        rows: Any table with procedure_id and first_frame (tracklets, fragments).
        spans: From the detections that the rows were made of.

    Returns:
        "position", Float64 in [0, 1]; 0 where the span is a single frame.
    """
    return _positions(rows, spans.procedures, ["procedure_id"]).rename("position")


def polyp_positions(rows: pl.DataFrame, spans: Spans) -> pl.Series:
    """Where each row's first frame lies in its polyp's own span.

    Args:
        rows: Any table with procedure_id, polyp_id and first_frame.
        spans: From the detections that the rows were made of.

    Returns:
        "polyp_position", Float64 in [0, 1]; 0 where the span is a single frame, null where the
        polyp is unknown.
    """
    return _positions(rows, spans.polyps, ["procedure_id", "polyp_id"]).rename("polyp_position")


def _positions(rows: pl.DataFrame, spans: pl.DataFrame, keys: list[str]) -> pl.Series:
    joined = rows.select(*keys, "first_frame").join(
        spans.select(
            *keys,
            pl.col("first_frame").alias("span_first"),
            (pl.col("last_frame") - pl.col("first_frame")).alias("length"),
        ),
        on=keys,
        how="left",
        maintain_order="left",
    )
    # numpy divides exactly rounded; polars may multiply by the reciprocal and pass 1.
    since = (joined["first_frame"] - joined["span_first"]).cast(pl.Float64).to_numpy()
    length = joined["length"].cast(pl.Float64).to_numpy()
    position = np.divide(since, length, out=since * 0.0, where=length > 0)
    return pl.Series(position, dtype=pl.Float64).fill_nan(None)
