"""What a table asks of vectors: any figure by its name, with what it rests on.

Names are those of `recipes.published`: "mAP", "HR@1", "AUROC", "temporal_ap/FR", "dbscan/AssA", ...
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from polyplink.associate import Grid, VisualForm, paper_grid, visual
from polyplink.associate.search import search
from polyplink.associate.settings import CLUSTERERS
from polyplink.associate.similarity import Reals, unit_rows
from polyplink.evaluate import (
    Samples,
    count_procedure,
    draw_weights,
    leave_one_out,
    reid_measures,
    reidentify,
    retrieval_measures,
    retrieve,
    summarise,
)
from polyplink.evaluate.choosing import Fold, Spread, spread
from polyplink.evaluate.intervals import Interval
from polyplink.evaluate.tracking_scores import tracking_figures
from polyplink.evaluate.tracking_table import look_at
from polyplink.evaluate.tracklet_boxes import TrackletBoxes

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


def of_interval(found: Interval, unit: str = "procedures") -> Measured:
    """A figure with its interval."""
    why = "" if found.value is not None else "undefined on these data"
    return Measured(found.value, found.low, found.high, None, found.n_units, unit, why)


def of_spread(found: Spread) -> Measured:
    """A mean over procedures with its standard deviation."""
    why = "" if found.mean is not None else "undefined on these data"
    return Measured(found.mean, spread=found.sd, units=found.n, why=why)


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
    found: dict[str, Interval] = {}
    weights = draw_weights(len(samples.procedures), resamples=asked.resamples)
    if set(names) & set(RETRIEVAL):
        measures = retrieval_measures(retrieve(unit, samples), samples, weights)
        found |= {name: measures[name].interval() for name in RETRIEVAL}
    if set(names) & set(REID):
        measures = reid_measures(reidentify(unit, samples), samples, weights)
        found |= {name: measures[name].interval() for name in REID}
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
    grid = asked.grid.only(clusterers)
    counts: dict[str, list[object]] = {name: [] for name in clusterers}
    labels: dict[str, list[np.ndarray]] = {name: [] for name in clusterers}
    places = [
        place
        for place in range(len(samples.procedures))
        if samples.known[samples.procedure == place].any()
    ]
    for place in places:
        part, rows = samples.of_procedure(place)
        polyps = [int(p) if k else None for p, k in zip(part.polyp, part.known, strict=True)]
        V = visual(unit[rows], asked.form)
        done = search(V, part.positions, grid, threads=asked.threads)
        for name in clusterers:
            counts[name].append(count_procedure(done[name].labels, polyps, part.procedures[0]))
            labels[name].append(done[name].labels)
    if len(places) < 2:
        why = "one labelled procedure: none to choose a setting on"
        every = [*_COUNTING, *TRACKING]
        return {f"{c}/{name}": Measured(None, why=why) for c in clusterers for name in every}
    result: dict[str, Measured] = {}
    for name in clusterers:
        folds = leave_one_out(counts[name])  # type: ignore[arg-type]
        means = summarise(folds)
        for figure, attribute in _COUNTING.items():
            result[f"{name}/{figure}"] = of_spread(getattr(means, attribute))
        chosen = [found[fold.choice.row] for found, fold in zip(labels[name], folds, strict=True)]
        result |= _tracked(name, folds, chosen, places, boxes)
    return result


def _tracked(
    name: str,
    folds: Sequence[Fold],
    labels: Sequence[np.ndarray],
    places: Sequence[int],
    boxes: Callable[[int], TrackletBoxes] | None,
) -> dict[str, Measured]:
    if boxes is None:
        why = "tracking is of whole tracklets"
        return {f"{name}/{figure}": Measured(None, why=why) for figure in TRACKING}
    per_procedure = [
        tracking_figures(look_at(fold.procedure, boxes(place)).score(own).counts)
        for fold, own, place in zip(folds, labels, places, strict=True)
    ]
    return {
        f"{name}/{figure}": of_spread(spread([float(found[figure]) for found in per_procedure]))
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
    return {"none/FR": of_spread(spread(rates)), "none/FPR": no_pair}
