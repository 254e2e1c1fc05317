"""Tracking as a task: with the counting settings, a detection's track is its tracklet's cluster.

Source: the thesis on foundation models (5.1.4): the best setting of counting is used for tracking.
Its tables give means and standard deviations over procedures; TrackEval adds the counts of
sequences up. Both are here: the second is the figure's plain name, the first is called a mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError, find_named
from polyplink.evaluate.choosing import DIGITS
from polyplink.evaluate.counting_task import Counted, CountedScene, fold_rows
from polyplink.evaluate.intervals import Figure, Resampled, Weights, resampled_mean
from polyplink.evaluate.tracking_scores import (
    FIGURES,
    Form,
    TrackingCounts,
    tracking_figures,
)
from polyplink.evaluate.tracking_sweep import TrackedSettings
from polyplink.evaluate.tracking_table import ProcedureTracking, TrackingTruth, look_at
from polyplink.evaluate.tracklet_boxes import TrackletBoxes

Reals = npt.NDArray[np.float64]

MEANS = ("HOTA", "AssA", "AssPr", "AssRe", "IDF1")  # that the thesis prints, and HOTA


@dataclass(frozen=True)
class TrackingRow:
    """Tracking of one procedure.

    Attributes:
        procedure: Its name.
        form: "table" where boxes are apart, "general" where some overlap.
        boxes: Boxes tracked.
        polyps: Polyps.
        tracks: Tracks.
        split: Tracklets that could not stay in their cluster's track, being in one frame with it.
        doubled: Boxes left out, because their polyp has another box in the frame.
        figures: HOTA and the rest.
    """

    procedure: str
    form: Form
    boxes: int
    polyps: int
    tracks: int
    split: int
    doubled: int
    figures: dict[str, float]


@dataclass(frozen=True)
class TrackingFigures:
    """Tracking with one clusterer.

    Attributes:
        procedures: One row per procedure.
        spreads: Mean and standard deviation over procedures, by figure, as the thesis gives them.
    """

    procedures: tuple[TrackingRow, ...]
    spreads: dict[str, Figure]


def truths(scenes: Sequence[CountedScene], boxes: TrackletBoxes) -> dict[str, TrackingTruth]:
    """Look at every procedure once, whatever encoders and clusterers follow.

    Args:
        scenes: The procedures.
        boxes: Boxes of all samples, in their order.
    """
    return {s.procedure: look_at(s.procedure, boxes.take(s.rows[s.known])) for s in scenes}


def track_task(
    counted: Counted, scenes: Sequence[CountedScene], seen: dict[str, TrackingTruth]
) -> list[ProcedureTracking]:
    """Score the tracks of every fold under the setting chosen for it."""
    return [
        seen[scene.procedure].score(clustering.labels)
        for scene, clustering in fold_rows(counted, scenes)
    ]


def track_settings(
    counted: Counted, scenes: Sequence[CountedScene], seen: dict[str, TrackingTruth]
) -> list[TrackedSettings]:
    """Score the tracks of every procedure under every setting."""
    return [
        seen[scene.procedure].score_settings(cut)
        for scene, cut in zip(scenes, counted.cuts, strict=True)
    ]


def tracking_curve(tracked: Sequence[TrackedSettings]) -> dict[str, Reals]:
    """Every setting's figures over all procedures (s,).

    Args:
        tracked: One per procedure, at least one, all under the same s settings.

    Returns:
        "HOTA" and so on with the procedures' boxes added up, and "HOTA mean" and so on where
        procedures weigh the same.
    """
    figures = tracking_figures(TrackingCounts.total(one.settings() for one in tracked))
    each = [(tracking_figures(one.counts), one.of) for one in tracked]
    for name in MEANS:
        figures[f"{name} mean"] = np.mean([own[name][of] for own, of in each], axis=0)
    return figures


def choose_by_tracking(tracked: Sequence[TrackedSettings], figure: str = "HOTA") -> int:
    """Row of the setting whose figure over these procedures is largest, the first among equals.

    Args:
        tracked: Of the procedures to choose on, not of those to report.
        figure: Of `tracking_curve`; not IDSW, of which less is better.

    Raises:
        PolyplinkError: If there is no procedure, or no such figure.
    """
    PolyplinkError.unless(
        bool(tracked), "no procedure to choose a setting on", "track at least one procedure"
    )
    values = find_named("figure", figure, tracking_curve(tracked))
    return int(np.argmax(values.round(DIGITS)))


def track_rows(
    done: Sequence[ProcedureTracking], seen: dict[str, TrackingTruth]
) -> TrackingFigures:
    """What each procedure's tracks scored, and their spread."""
    rows = []
    for one in done:
        figures = {name: float(v) for name, v in tracking_figures(one.counts).items()}
        tracklets = seen[one.procedure].tracklets
        polyps = int(np.unique(tracklets.polyp).size)
        boxes = int(one.counts.true)
        rows.append(
            TrackingRow(
                one.procedure, one.form, boxes, polyps, one.tracks, one.split, one.doubled, figures
            )
        )
    spreads = {name: Figure.mean_of([row.figures[name] for row in rows]) for name in FIGURES}
    return TrackingFigures(tuple(rows), spreads)


def tracking_measures(
    name: str, done: Sequence[ProcedureTracking], weights: Weights
) -> dict[str, Resampled]:
    """The figures with their resamples over procedures.

    Args:
        name: The clusterer; figures are called "tracking/NAME/HOTA" and so on, and
            "tracking/NAME/HOTA mean" where procedures weigh the same.
        done: One per fold; none: figures are undefined.
        weights: Draws (r, procedures).
    """
    units = weights.shape[1]
    if not done:
        nothing = Resampled(None, np.full(len(weights), np.nan), np.zeros(units, dtype=np.bool_))
        names = [*FIGURES, *(f"{figure} mean" for figure in MEANS)]
        return {f"tracking/{name}/{figure}": nothing for figure in names}
    counts = [one.counts for one in done]
    total = tracking_figures(TrackingCounts.total(counts))
    drawn = tracking_figures(TrackingCounts.weighted(counts, weights))
    part = np.ones(units, dtype=np.bool_)
    measures = {
        f"tracking/{name}/{figure}": Resampled(float(total[figure]), drawn[figure], part)
        for figure in FIGURES
    }
    each = [tracking_figures(one) for one in counts]
    for figure in MEANS:
        values: Reals = np.array([float(one[figure]) for one in each])
        measures[f"tracking/{name}/{figure} mean"] = resampled_mean(values, part, weights)
    return measures
