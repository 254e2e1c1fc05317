"""What a table asks of vectors: any figure by its name, with what it rests on.

Names are those of `recipes.published`: "mAP", "HR@1", "AUROC", "temporal_ap/FR", "dbscan/AssA", ...
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from polyplink.associate import Grid, VisualForm, paper_grid
from polyplink.associate.search import CLUSTERERS
from polyplink.associate.similarity import Reals, unit_rows
from polyplink.evaluate import (
    Samples,
    draw_weights,
    reid_measures,
    reidentify,
    retrieval_measures,
    retrieve,
    summarise,
)
from polyplink.evaluate.counting_task import Counted, count_task, counted_scenes
from polyplink.evaluate.hota import tracking_figures
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.samples import TrackletBoxes
from polyplink.evaluate.tracking import TrackingTruth

RETRIEVAL = ("mAP", "HR@1", "HR@5")
REID = ("AUROC", "AUPR")
TRACKING = ("HOTA", "AssA", "AssPr", "AssRe", "DetA", "IDF1")
_COUNTING = {
    "FR": "fr",
    "FPR": "fpr",
    "precision": "precision",
    "recall": "recall",
    "precision with self": "precision_with_self",
    "recall with self": "recall_with_self",
}


@dataclass(frozen=True)
class Measured:
    """A figure of ours.

    Attributes:
        value: In [0, 1] or as a plain number; None where it is undefined.
        low: Lower end of its 95 % interval, where there is one.
        high: Upper end.
        spread: Standard deviation over procedures, where the papers print one.
        units: Independent units that it rests on.
        unit: What they are.
        why: Why there is no value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    units: int = 0
    unit: str = "procedures"
    why: str = ""


@dataclass(frozen=True)
class Asked:
    """How to measure.

    Attributes:
        grid: Settings of the clusterers.
        form: Form of the visual similarity.
        threads: For the search.
        resamples: Of the bootstrap.
    """

    grid: Grid = field(default_factory=paper_grid)
    form: VisualForm = "l2"
    threads: int = 1
    resamples: int = 10_000


def of_interval(found: Figure, unit: str = "procedures") -> Measured:
    """A figure with its interval."""
    why = "" if found.value is not None else "undefined on these data"
    return Measured(found.value, found.low, found.high, None, found.n, unit, why)


def of_spread(found: Figure) -> Measured:
    """A mean over procedures with its standard deviation."""
    why = "" if found.value is not None else "undefined on these data"
    return Measured(found.value, spread=found.sd, units=found.n, why=why)


def measure(
    wanted: Iterable[str],
    vectors: Reals,
    samples: Samples,
    boxes: Callable[[int], TrackletBoxes] | None = None,
    asked: Asked | None = None,
) -> dict[str, Measured]:
    """Measure what is wanted of one encoder.

    Args:
        wanted: Names of figures.
        vectors: Embeddings (n, d) in the order of the samples.
        samples: Whose they are.
        boxes: Boxes of a procedure's tracklets, by its place; None where samples are no whole
            tracklets, so that there is no tracking.
        asked: How to measure; the paper's grid by default.

    Returns:
        By name; names that are no figure of vectors are left out.

    Raises:
        PolyplinkError: If a vector is zero or not finite.
    """
    asked, names = asked or Asked(), list(dict.fromkeys(wanted))
    unit = unit_rows(vectors)
    found: dict[str, Figure] = {}
    weights = draw_weights(len(samples.procedures), resamples=asked.resamples)
    if set(names) & set(RETRIEVAL):
        measures = retrieval_measures(retrieve(unit, samples), samples, weights)
        found |= {name: measures[name].figure() for name in RETRIEVAL}
    if set(names) & set(REID):
        measures = reid_measures(reidentify(unit, samples), samples, weights)
        found |= {name: measures[name].figure() for name in REID}
    result = {name: of_interval(found[name]) for name in names if name in found}
    clusterers = [c for c in CLUSTERERS if any(name.startswith(f"{c}/") for name in names)]
    if clusterers:
        counted = _clustered(unit, samples, boxes, clusterers, asked)
        result |= {name: counted[name] for name in names if name in counted}
    if any(name.startswith("none/") for name in names):
        result |= _unclustered(samples)
    return result


def _clustered(
    unit: Reals,
    samples: Samples,
    boxes: Callable[[int], TrackletBoxes] | None,
    clusterers: Sequence[str],
    asked: Asked,
) -> dict[str, Measured]:
    """Counting and tracking by each clusterer, its setting chosen on the other procedures."""
    scenes, _ = counted_scenes(unit, samples, asked.form)
    if len(scenes) < 2:
        why = "one labelled procedure: none to choose a setting on"
        every = [*_COUNTING, *TRACKING]
        return {f"{c}/{name}": Measured(None, why=why) for c in clusterers for name in every}
    result: dict[str, Measured] = {}
    done = count_task(scenes, samples, asked.grid, clusterers=clusterers, threads=asked.threads)
    for name, counted in done.items():
        means = summarise(counted.figures.folds)
        for figure, attribute in _COUNTING.items():
            result[f"{name}/{figure}"] = of_spread(getattr(means, attribute))
        result |= _tracked(name, counted, samples, boxes)
    return result


def _tracked(
    name: str,
    counted: Counted,
    samples: Samples,
    boxes: Callable[[int], TrackletBoxes] | None,
) -> dict[str, Measured]:
    if boxes is None:
        why = "tracking is of whole tracklets"
        return {f"{name}/{figure}": Measured(None, why=why) for figure in TRACKING}
    per_procedure = []
    for fold, labels in zip(counted.figures.folds, counted.labels, strict=True):
        place = samples.procedures.index(fold.procedure)
        own = boxes(place).take(np.flatnonzero(samples.known[samples.procedure == place]))
        counts = TrackingTruth.of(fold.procedure, own).score(labels[None]).counts
        per_procedure.append(tracking_figures(counts.take(0)))
    return {
        f"{name}/{figure}": of_spread(
            Figure.mean_of([float(found[figure]) for found in per_procedure])
        )
        for figure in TRACKING
    }


def _unclustered(samples: Samples) -> dict[str, Measured]:
    """Every tracklet on its own: tracklets over polyps, and no pair is linked."""
    rates: list[float | None] = []
    several = 0
    for place in range(len(samples.procedures)):
        mine = samples.known & (samples.procedure == place)
        polyps = len(np.unique(samples.polyp[mine]))
        rates.append(float(mine.sum() / polyps) if polyps else None)
        several += polyps > 1
    no_pair = Measured(0.0 if several else None, spread=0.0, units=several)
    return {"none/FR": of_spread(Figure.mean_of(rates)), "none/FPR": no_pair}
