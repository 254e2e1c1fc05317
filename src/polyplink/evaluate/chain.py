"""From a detector's boxes to a count, against the truth: errors of detection, tracking and links.

Detected boxes are matched with annotated ones frame by frame; a tracklet shows the polyp that most
of its boxes match, or is a false alarm if most of them match none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from polyplink.evaluate.hota import TrackingCounts, score_tracks, tracking_figures
from polyplink.evaluate.intervals import (
    Figure,
    Resampled,
    draw_weights,
    resampled_mean,
    unless_nan,
)
from polyplink.evaluate.samples import BoxTracks, overlaps
from polyplink.tracklets.box_runs import BOX, one_box_a_frame

MATCH = 0.3  # smallest IoU of a detected box with the polyp's box


@dataclass(frozen=True)
class ChainRow:
    """The results for one procedure.

    Attributes:
        procedure_id: Id of the procedure.
        polyps: Number of annotated polyps.
        detected_polyps: Number of annotated polyps with a tracklet.
        counted: Number of counted polyps.
        false_polyps: Number of counted polyps with only false alarms as tracklets.
        tracklets: Number of tracklets that show a polyp.
        false_tracklets: Number of tracklets that are false alarms.
        mixed: Number of tracklets that show a polyp, with boxes of two polyps or more.
        counts: Sums of tracking: annotated polyps against counted ones.
    """

    procedure_id: str
    polyps: int
    detected_polyps: int
    counted: int
    false_polyps: int
    tracklets: int
    false_tracklets: int
    mixed: int
    counts: TrackingCounts


def score_procedure(procedure_id: str, truth: pl.DataFrame, boxes: pl.DataFrame) -> ChainRow:
    """Compare one procedure's counted boxes with its annotated ones.

    Args:
        procedure_id: Id of the procedure.
        truth: frame, x, y, w, h, polyp_id of the annotated boxes.
        boxes: frame, x, y, w, h, score, tracklet, polyp (any names) of the boxes in tracklets, and
            interpolated: whether a box fills a gap; such boxes only count in tracking.

    Example:
        >>> box = {"x": 0.0, "y": 0.0, "w": 9.0, "h": 9.0}
        >>> truth = pl.DataFrame([{"frame": k, **box, "polyp_id": "a"} for k in range(8)])
        >>> box |= {"score": 0.9, "polyp": 1, "interpolated": False}
        >>> detected = pl.DataFrame([{"frame": k, **box, "tracklet": k // 4} for k in range(8)])
        >>> row = score_procedure("p", truth, detected)
        >>> row.detected_polyps, row.counted, row.tracklets
        (1, 1, 2)
    """
    single = one_box_a_frame(boxes, "frame", "polyp")
    tracks = BoxTracks.of(single["frame"], single["polyp"], single.select(BOX).to_numpy())
    tracklets = match_tracklets(truth, boxes.filter(~pl.col("interpolated"))).join(
        boxes.select("tracklet", "polyp").unique(), "tracklet"
    )
    real = tracklets.drop_nulls("polyp_id")
    return ChainRow(
        procedure_id,
        polyps=truth["polyp_id"].drop_nulls().n_unique(),
        detected_polyps=real["polyp_id"].n_unique(),
        counted=tracklets["polyp"].n_unique(),
        false_polyps=tracklets["polyp"].n_unique() - real["polyp"].n_unique(),
        tracklets=real.height,
        false_tracklets=tracklets.height - real.height,
        mixed=int(real["mixed"].sum()),
        counts=score_tracks(_annotated(truth), tracks),
    )


def match_tracklets(truth: pl.DataFrame, boxes: pl.DataFrame) -> pl.DataFrame:
    """Match each tracklet of a procedure to the polyp that it shows, by overlap of boxes over time.

    Args:
        truth: frame, x, y, w, h, polyp_id of the annotated boxes.
        boxes: frame, x, y, w, h and tracklet (any names) of the boxes in tracklets.

    Returns:
        tracklet, polyp_id (the polyp of most of its matched boxes; null for a false alarm, with
        most boxes unmatched), and mixed: whether its boxes match more than one polyp.

    Example:
        >>> box = {"x": 0.0, "y": 0.0, "w": 9.0, "h": 9.0}
        >>> truth = pl.DataFrame([{"frame": k, **box, "polyp_id": "a"} for k in range(4)])
        >>> detected = pl.DataFrame([{"frame": k, **box, "tracklet": k // 4} for k in range(8)])
        >>> sorted(match_tracklets(truth, detected).rows())
        [(0, 'a', False), (1, None, False)]
    """
    true = _annotated(truth)
    detected = BoxTracks.of(boxes["frame"], np.arange(boxes.height), boxes.select(BOX).to_numpy())
    pairs = overlaps(true, detected)
    # The polyp of each detected box by the largest overlap; -1 for none.
    shows = np.full(boxes.height, -1)
    order = np.argsort(pairs.similarity, kind="stable")
    order = order[pairs.similarity[order] >= MATCH]
    shows[detected.track[pairs.detected[order]]] = true.track[pairs.true[order]]
    matched = pl.col("shows").filter(pl.col("shows") >= 0)
    names = truth.select(pl.col("polyp_id").drop_nulls().unique().sort()).with_row_index("shows")
    return (
        boxes.with_columns(shows=pl.Series(shows))
        .group_by("tracklet", maintain_order=True)
        .agg(
            real=(pl.col("shows") >= 0).mean() >= 0.5,
            shows=matched.mode().min(),
            mixed=matched.n_unique() > 1,
        )
        .with_columns(pl.when("real").then("shows").cast(pl.UInt32))
        .join(names, "shows", how="left", maintain_order="left")
        .select("tracklet", "polyp_id", "mixed")
    )


def _annotated(truth: pl.DataFrame) -> BoxTracks:
    """Annotated boxes, one per polyp and frame; tracks are polyps sorted by name."""
    # In the order of the table: of two polyps with equal overlap, always the same one is matched.
    truth = truth.drop_nulls("polyp_id").unique(
        ["frame", "polyp_id"], keep="first", maintain_order=True
    )
    return BoxTracks.of(
        truth["frame"], truth["polyp_id"].to_numpy().astype(str), truth.select(BOX).to_numpy()
    )


def chain_figures(rows: Sequence[ChainRow]) -> Mapping[str, Figure]:
    """Figures over all procedures, with intervals by a bootstrap over procedures.

    Args:
        rows: One per procedure, at least one.

    Returns:
        The figures of `resampled_chain`.
    """
    return {name: figure.figure() for name, figure in resampled_chain(rows).items()}


def resampled_chain(rows: Sequence[ChainRow]) -> Mapping[str, Resampled]:
    """Figures over all procedures in every resample, for paired differences.

    Args:
        rows: One per procedure, at least one.

    Returns:
        polyps found and tracklets mixed (shares); false polyps and count error (means per
        procedure, the error absolute); FR (real counted polyps per detected polyp); HOTA; IDF1.
    """
    draws = draw_weights(len(rows))
    per_procedure = [1] * len(rows)
    parts: dict[str, tuple[list[int], list[int]]] = {
        "polyps found": ([r.detected_polyps for r in rows], [r.polyps for r in rows]),
        "tracklets mixed": ([r.mixed for r in rows], [r.tracklets for r in rows]),
        "false polyps": ([r.false_polyps for r in rows], per_procedure),
        "count error": ([abs(r.counted - r.polyps) for r in rows], per_procedure),
        "FR": ([r.counted - r.false_polyps for r in rows], [r.detected_polyps for r in rows]),
    }
    figures = {name: resampled_mean(*part, draws) for name, part in parts.items()}
    counts = [row.counts for row in rows]
    total = tracking_figures(TrackingCounts.total(counts))
    drawn = tracking_figures(TrackingCounts.weighted(counts, draws))
    part = np.ones(len(rows), dtype=np.bool_)
    for name in ("HOTA", "IDF1"):
        figures[name] = Resampled(unless_nan(total[name]), drawn[name], part)
    return figures
