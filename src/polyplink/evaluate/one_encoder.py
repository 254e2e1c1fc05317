"""One encoder: every task that is asked for, its figures with their resamples and its tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.similarity import Reals
from polyplink.evaluate.asked import EvaluationSettings, Facts
from polyplink.evaluate.counting_task import (
    Counted,
    CountedScene,
    count_task,
    counted_scenes,
    fold_rows,
)
from polyplink.evaluate.figures import reid_rows
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.measures import (
    Measures,
    counting_measures,
    published_reid_measures,
    reid_measures,
)
from polyplink.evaluate.operating_curve import curve_table, operating_curve
from polyplink.evaluate.reid import published_reid, reidentify
from polyplink.evaluate.retrieval import (
    RETRIEVAL,
    query_table,
    retrieval_figures,
    retrieval_measures,
    retrieve,
)
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.tracking import (
    ProcedureTracking,
    TrackingTruth,
    tracking_curve,
    tracking_measures,
    tracking_rows,
)


@dataclass
class Work:
    """What is asked of every encoder alike.

    Attributes:
        settings: How to evaluate.
        facts: What some tasks need.
        seen: By procedure, who meets whom: filled by the first encoder, for all.
    """

    settings: EvaluationSettings
    facts: Facts
    seen: dict[str, TrackingTruth] = field(default_factory=dict)


@dataclass
class Done:
    """What has been found for one encoder so far.

    Attributes:
        measures: Figures with their resamples.
        parts: Fields of `EncoderFigures`.
        tables: By name, tables that are stacked over encoders.
    """

    measures: Measures = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[pl.DataFrame]] = field(default_factory=dict)


def _retrieval(done: Done, unit: Reals, samples: Samples, settings: EvaluationSettings) -> None:
    found = retrieve(unit, samples)
    names = [*RETRIEVAL, "mAP (as published)"]
    if settings.without_own:
        names += [f"{name} (without own)" for name in RETRIEVAL]
    weights = _weights(len(samples.procedures), settings)
    done.measures |= retrieval_measures(found, samples, weights, names)
    done.parts["retrieval"] = retrieval_figures(found, samples)
    done.tables["queries"] = [query_table(found, samples)]


def _reid(done: Done, unit: Reals, samples: Samples, settings: EvaluationSettings) -> None:
    weights = _weights(len(samples.procedures), settings)
    found = reidentify(unit, samples)
    published = published_reid(unit, samples)
    done.measures |= reid_measures(found, samples, weights)
    done.measures |= published_reid_measures(published, samples, weights)
    done.parts["pairs"] = (found.positives, found.negatives)
    done.parts["reid"] = reid_rows(unit, samples)


def _weights(units: int, settings: EvaluationSettings) -> npt.NDArray[np.int64]:
    return draw_weights(units, resamples=settings.resamples, seed=settings.seed)


def _counting(done: Done, unit: Reals, samples: Samples, work: Work) -> None:
    settings, facts, seen = work.settings, work.facts, work.seen
    scenes, without = counted_scenes(unit, samples, settings.form)
    counted = count_task(
        scenes,
        samples,
        settings.grid,
        clusterers=settings.clusterers,
        chosen_on=settings.chosen_on,
        adenoma=facts.adenoma,
        threads=settings.threads,
    )
    if "tracking" in settings.tasks and facts.boxes is not None and not seen:
        for scene in scenes:
            own = facts.boxes.take(scene.rows[scene.known])
            seen[scene.procedure] = TrackingTruth.of(scene.procedure, own)
    tracking, tables, curves = {}, [], []
    for name, one in counted.items():
        weights = _weights(len(one.figures.folds) or len(scenes), settings)
        if "counting" in settings.tasks:
            done.measures |= counting_measures(
                name, one.figures.folds, weights.shape[1], weights, one.clinic
            )
        curve: dict[str, Reals] = {}
        if "counting" in settings.tasks:
            curve |= vars(operating_curve(one.counts, one.converged))
        folds: list[ProcedureTracking] = []
        if seen:
            tracked = {
                scene.procedure: (seen[scene.procedure].score(cut.labels), cut.of)
                for scene, cut in zip(scenes, one.cuts, strict=True)
            }
            curve |= tracking_curve(*zip(*tracked.values(), strict=True))
            for fold in one.figures.folds:
                every, of = tracked[fold.procedure]
                folds.append(every.take(of[fold.choice.row]))
            done.measures |= tracking_measures(name, folds, weights)
            tracking[name] = tracking_rows(folds, seen)
        table = curve_table(one.settings, curve)
        curves.append(table.select(pl.lit(name).alias("clusterer"), pl.all()))
        tables.append(_assignment(name, one, scenes, samples, folds))
    kept = counted if "counting" in settings.tasks else {}
    done.parts |= {
        "counting": {name: one.figures for name, one in kept.items()},
        "converged": {n: tuple(c.converged for c in one.clusterings) for n, one in kept.items()},
        "clinic": {name: one.clinic for name, one in kept.items() if one.clinic is not None},
        "tracking": tracking,
        "not_converged": counted["temporal_ap"].not_converged if "temporal_ap" in counted else 0.0,
        "not_counted": without,
    }
    done.tables |= {"curve": curves, "assignment": tables}


def _assignment(
    name: str,
    counted: Counted,
    scenes: Sequence[CountedScene],
    samples: Samples,
    folds: Sequence[ProcedureTracking],
) -> pl.DataFrame:
    """Cluster and track of every tracklet of known polyp under its fold's setting."""
    parts = []
    for place, (scene, found) in enumerate(fold_rows(counted, scenes)):
        track = pl.Series(folds[place].track, dtype=pl.Int64) if folds else None
        parts.append(
            pl.DataFrame(
                {
                    "clusterer": name,
                    "procedure_id": scene.procedure,
                    "tracklet_id": [samples.tracklet_ids[row] for row in scene.rows],
                    "cluster": pl.Series(found.labels, dtype=pl.Int64),
                    "track": track,
                    "converged": found.converged,
                },
                schema_overrides={"track": pl.Int64},
            )
        )
    return pl.concat(parts) if parts else pl.DataFrame()


def evaluate_one(unit: Reals, samples: Samples, work: Work) -> Done:
    """All tasks that are asked for, of one encoder.

    Args:
        unit: Embeddings (n, d) of length 1.
        samples: Whose they are.
        work: What is asked; what is found once for all encoders is kept in it.
    """
    settings = work.settings
    done = Done()
    rows = np.flatnonzero(
        ~np.isin(np.array(samples.procedures), settings.chosen_on)[samples.procedure]
    )
    own, part = unit[rows], samples.take(rows)
    if "retrieval" in settings.tasks:
        _retrieval(done, own, part, settings)
    if "reid" in settings.tasks:
        _reid(done, own, part, settings)
    if {"counting", "tracking"} & set(settings.tasks):
        _counting(done, unit, samples, work)
    return done
