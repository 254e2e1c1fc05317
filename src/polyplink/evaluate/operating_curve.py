"""Every setting of a whole grid: means over the procedures of FR, FPR and the rest, as a table."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.clusterers import Setting
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.counting import ProcedureCounts

Reals = npt.NDArray[np.float64]
NAMES = ("fr", "fpr", "precision", "recall", "precision_with_self", "recall_with_self")


@dataclass(frozen=True)
class OperatingCurve:
    """Means over procedures under every setting (s,); NaN where undefined.

    FR is over all procedures, the rest over those with two polyps or more, as in `choose`.

    Attributes:
        fr: Fragmentation rate.
        fpr: False positive rate.
        precision: Over pairs of two tracklets.
        recall: Over pairs of two tracklets.
        precision_with_self: As published, self-pairs being true positives.
        recall_with_self: As published, self-pairs being true positives.
        converged: Share of the procedures whose clustering settled.
        exact: Share of the procedures counted exactly.
    """

    fr: Reals
    fpr: Reals
    precision: Reals
    recall: Reals
    precision_with_self: Reals
    recall_with_self: Reals
    converged: Reals
    exact: Reals


def operating_curve(
    counts: Sequence[ProcedureCounts], converged: Sequence[npt.NDArray[np.bool_]]
) -> OperatingCurve:
    """Average every setting's figures over procedures.

    Args:
        counts: One per procedure, under the same s settings.
        converged: Whether each clustering settled, one (s,) per procedure.

    Raises:
        PolyplinkError: If there is no procedure.
    """
    if not counts:
        raise PolyplinkError("no procedure to average over", "count at least one procedure")
    several = [c for c in counts if c.polyps > 1]
    nothing = np.full(counts[0].clusters.size, np.nan)
    means = {}
    for name in NAMES:
        taken = counts if name == "fr" else several
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN: meant
            rows = [getattr(c, name) for c in taken]
            means[name] = np.nanmean(rows, axis=0) if rows else nothing
    exact = np.mean([c.count_error == 0 for c in counts], axis=0)
    return OperatingCurve(**means, converged=np.mean(converged, axis=0), exact=exact)


def curve_table(settings: Sequence[Setting], figures: Mapping[str, Reals]) -> pl.DataFrame:
    """One row per setting: its parameters, then its figures; undefined is null.

    Args:
        settings: The settings of one clusterer.
        figures: By name, in their order (s,): those of an `OperatingCurve`, of `tracking_curve`.
    """
    parameters = pl.DataFrame([asdict(setting) for setting in settings])  # type: ignore[call-overload]
    values = {
        name: pl.Series(np.asarray(value), dtype=pl.Float64).fill_nan(None)
        for name, value in figures.items()
    }
    return parameters.hstack(pl.DataFrame(values))
