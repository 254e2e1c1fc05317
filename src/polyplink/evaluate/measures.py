"""The figures of an encoder by name, each with its resamples over procedures.

Names are those of the tables: "mAP", "HR@1", "HR@5", "AUROC", "AUPR", and for each clusterer
"NAME/FR" and so on. A figure is resampled with the same draws for every encoder, so that any two
can be compared in pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from polyplink.evaluate.choosing import Fold
from polyplink.evaluate.clinic import Clinic
from polyplink.evaluate.intervals import Resampled, Weights, resample_reid, resampled_mean
from polyplink.evaluate.reid import Reid
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]
Measures = dict[str, Resampled]

PUBLISHED = "(as published)"
OVER_ALL = ("FR", "count error", "exact")  # the rest is over procedures with two polyps or more


def reid_measures(reid: Reid, samples: Samples, weights: Weights) -> Measures:
    """AUROC and AUPR over all pairs, for draws (r, procedures)."""
    units = _labelled(samples)
    nothing = np.full(len(weights), np.nan)
    auroc, aupr = resample_reid(reid.counts, weights) if reid.counts else (nothing, nothing)
    return {
        "AUROC": Resampled(reid.auroc, auroc, units),
        "AUPR": Resampled(reid.aupr, aupr, units),
    }


def _labelled(samples: Samples) -> npt.NDArray[np.bool_]:
    """Whether each procedure has a tracklet of known polyp (procedures,)."""
    return np.isin(np.arange(len(samples.procedures)), samples.procedure[samples.known])


def published_reid_measures(
    published: tuple[float, float] | None, samples: Samples, weights: Weights
) -> Measures:
    """AUROC and AUPR as published, for draws (r, procedures).

    They have no interval of their own: they differ from the exact ones by rounding alone.
    """
    nothing, units = np.full(len(weights), np.nan), _labelled(samples)
    auroc, aupr = published or (None, None)
    return {
        f"AUROC {PUBLISHED}": Resampled(auroc, nothing, units),
        f"AUPR {PUBLISHED}": Resampled(aupr, nothing, units),
    }


_OF_A_FOLD: Mapping[str, Callable[[Fold], float | None]] = {
    "FR": attrgetter("fr"),
    "FPR": attrgetter("fpr"),
    "precision": attrgetter("precision"),
    "recall": attrgetter("recall"),
    "precision with self": attrgetter("precision_with_self"),
    "recall with self": attrgetter("recall_with_self"),
}


def counting_measures(
    name: str,
    folds: Sequence[Fold],
    procedures: int,
    weights: Weights,
    clinic: Clinic | None = None,
) -> Measures:
    """Figures of a clusterer over the folds, each under the setting chosen on all others.

    Args:
        name: The clusterer; the figures are called "name/FR" and so on.
        folds: One per procedure, or none where there was one procedure only.
        procedures: Procedures that were counted.
        weights: Draws (r, procedures).
        clinic: Polyps and adenomas as counted, over the same folds.
    """
    columns: dict[str, list[float | None]] = {
        key: [get(fold) if key in OVER_ALL or fold.polyps > 1 else None for fold in folds]
        for key, get in _OF_A_FOLD.items()
    }
    columns["count error"] = [float(abs(fold.clusters - fold.polyps)) for fold in folds]
    columns["exact"] = [float(fold.clusters == fold.polyps) for fold in folds]
    rows = clinic.rows if clinic is not None else ()
    columns["PPC"] = [float(row.counted) for row in rows]
    columns["ADR"] = [_found_one(row.adenomas_counted) for row in rows]
    measures = {}
    for key, column in columns.items():
        values = column or [None] * procedures  # without folds: undefined, not zero
        defined = [float(value is not None) for value in values]
        sums = [value or 0.0 for value in values]
        measures[f"{name}/{key}"] = resampled_mean(sums, defined, weights)
    return measures


def _found_one(adenomas: int | None) -> float | None:
    return None if adenomas is None else float(adenomas > 0)
