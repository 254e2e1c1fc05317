"""Counting as a task: cluster every procedure under a whole grid, choose settings, report figures.

Clinical figures are also here: polyps per colonoscopy (PPC), adenomas per colonoscopy
(APC) and the share of colonoscopies with an adenoma (ADR). Each is given as it is, from the polyps
with a tracklet, and as counted, from the clusters. A cluster is an adenoma if at least half of its
tracklets of known histology show one: this counts histologists' findings, not a classifier's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.clusterers import Setting
from polyplink.associate.search import Grid, search
from polyplink.associate.similarity import Reals, VisualForm, visual
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.choosing import OVER_ALL, RATES, CountingFigures, counting_figures
from polyplink.evaluate.counting import Partitions, ProcedureCounts, count_partitions, partitions
from polyplink.evaluate.intervals import Resampled, Weights, resampled_mean
from polyplink.evaluate.samples import Samples

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Clinic:
    """Rates over procedures; those of adenomas over the procedures of known histology.

    Attributes:
        procedures: Procedures counted.
        ppc: Polyps per colonoscopy.
        ppc_counted: Clusters per colonoscopy.
        with_histology: Procedures of which some polyp's histology is known.
        apc: Adenomas per colonoscopy; None without histology, as are the next three.
        apc_counted: Clusters called adenoma per colonoscopy.
        adr: Share of colonoscopies with an adenoma.
        adr_counted: Share with a cluster called adenoma.
        rows: One per procedure, see `clinic_row`.
    """

    procedures: int
    ppc: float
    ppc_counted: float
    with_histology: int
    apc: float | None
    apc_counted: float | None
    adr: float | None
    adr_counted: float | None
    rows: tuple[dict[str, Any], ...]


def clinic_row(
    procedure: str, labels: npt.ArrayLike, polyps: Sequence[int], adenoma: Sequence[bool | None]
) -> dict[str, Any]:
    """Count one procedure.

    Args:
        procedure: Its name.
        labels: Cluster of every tracklet of known polyp (n,).
        polyps: Its polyp (n,).
        adenoma: Whether that is an adenoma (n,); None where unknown.

    Returns:
        procedure; polyps (those that have a tracklet); counted (clusters); adenomas (polyps) and
        adenomas_counted (clusters called adenoma), both None where no histology is known.
    """
    clusters, of = np.unique(np.asarray(labels), return_inverse=True)
    known = np.array([kind is not None for kind in adenoma], dtype=np.bool_)
    yes = np.array([bool(kind) for kind in adenoma], dtype=np.bool_)
    votes = np.bincount(of, weights=yes, minlength=clusters.size)
    against = np.bincount(of, weights=known & ~yes, minlength=clusters.size)
    called = int(((votes > 0) & (votes >= against)).sum())  # a tie is called adenoma: it is one
    return {
        "procedure": procedure,
        "polyps": len(set(polyps)),
        "counted": int(clusters.size),
        "adenomas": np.unique(np.asarray(polyps)[yes]).size if known.any() else None,
        "adenomas_counted": called if known.any() else None,
    }


def clinic_figures(rows: Sequence[dict[str, Any]]) -> Clinic | None:
    """The rates over procedures; None where nothing was counted."""
    if not rows:
        return None
    known = [row for row in rows if row["adenomas"] is not None]

    def mean(values: Sequence[int]) -> float | None:
        return float(np.mean(values)) if values else None

    return Clinic(
        procedures=len(rows),
        ppc=float(np.mean([row["polyps"] for row in rows])),
        ppc_counted=float(np.mean([row["counted"] for row in rows])),
        with_histology=len(known),
        apc=mean([row["adenomas"] for row in known]),
        apc_counted=mean([row["adenomas_counted"] for row in known]),
        adr=mean([row["adenomas"] > 0 for row in known]),
        adr_counted=mean([row["adenomas_counted"] > 0 for row in known]),
        rows=tuple(rows),
    )


@dataclass(frozen=True)
class Counted:
    """One clusterer on all procedures with labels.

    Attributes:
        settings: Its s settings.
        counts: One per procedure, under all settings.
        cuts: Of each procedure's tracklets of known polyp, the partitions under all settings.
        converged: Whether each clustering converged, (s,) per procedure.
        figures: The folds: each procedure under the setting chosen for it.
        fold_converged: Whether each fold's clustering converged.
        clinic: What a clinic asks, over the folds; None without folds.
        assignment: clusterer, procedure_id, tracklet_id, cluster, track (null) and converged of
            every tracklet of known polyp, fold after fold; without columns if there is no fold.
    """

    settings: tuple[Setting, ...]
    counts: tuple[ProcedureCounts, ...]
    cuts: tuple[Partitions, ...]
    converged: tuple[Flags, ...]
    figures: CountingFigures
    fold_converged: tuple[bool, ...]
    clinic: Clinic | None
    assignment: pl.DataFrame

    @property
    def not_converged(self) -> float:
        """Share of the clusterings of the search that did not converge."""
        return float(1 - np.concatenate(self.converged).mean())


def count_task(
    vectors: Reals,
    samples: Samples,
    grid: Grid,
    *,
    form: VisualForm = "l2",
    clusterers: Sequence[str] = (),
    chosen_on: Sequence[str] = (),
    adenoma: Sequence[bool | None] | None = None,
    threads: int = 1,
) -> dict[str, Counted]:
    """Count the polyps of every procedure that has labels, with every clusterer of the grid.

    Args:
        vectors: Embeddings (n, d).
        samples: The tracklets of these vectors; those of unknown polyp are clustered, then left
            out.
        grid: Settings to search.
        form: Form of the visual similarity.
        clusterers: Those to report; none: all of the grid.
        chosen_on: Procedures to choose settings on, the others being counted; none: leave one
            out.
        adenoma: Whether each tracklet's polyp is an adenoma (n,), None where unknown.
        threads: Threads for the search.

    Raises:
        PolyplinkError: If a clusterer has no setting in the grid, or no procedure has labels.
    """
    grid = grid.only(clusterers) if clusterers else grid
    kinds = grid.by_clusterer()
    if not kinds:
        raise PolyplinkError("the grid has no setting", "give it parameters, or use paper_grid()")
    rows, swept = {}, {}
    for place in np.flatnonzero(samples.labelled):
        procedure = samples.procedures[place]
        own = rows[procedure] = np.flatnonzero(samples.procedure == place)
        V = visual(vectors[own], form)
        swept[procedure] = search(V, samples.positions[own], grid, threads=threads)
    done = {}
    for name in clusterers or kinds:
        cuts, counts = [], []
        for procedure, own in rows.items():
            known = samples.known[own]
            cuts.append(partitions(swept[procedure][name].labels[:, known]))
            codes = zip(samples.polyp[own].tolist(), known, strict=True)
            polyps = [code if labelled else None for code, labelled in codes]
            counts.append(count_partitions(cuts[-1], polyps, procedure))
        figures = counting_figures(counts, kinds[name], chosen_on)
        clinic, settled, assignment = [], [], []
        for fold in figures.folds:
            procedure, setting = fold["procedure"], fold["choice"].row
            found, known = swept[procedure][name], samples.known[rows[procedure]]
            labels = found.labels[setting][known]
            tracklets = rows[procedure][known].tolist()
            settled.append(bool(found.converged[setting]))
            histology = [None if adenoma is None else adenoma[row] for row in tracklets]
            polyps = samples.polyp[tracklets].tolist()
            clinic.append(clinic_row(procedure, labels, polyps, histology))
            columns = {
                "clusterer": name,
                "procedure_id": procedure,
                "tracklet_id": [samples.tracklet_ids[row] for row in tracklets],
                "cluster": pl.Series(labels, dtype=pl.Int64),
                "track": None,
                "converged": settled[-1],
            }
            assignment.append(pl.DataFrame(columns, schema_overrides={"track": pl.Int64}))
        done[name] = Counted(
            kinds[name],
            tuple(counts),
            tuple(cuts),
            tuple(found[name].converged for found in swept.values()),
            figures,
            tuple(settled),
            clinic_figures(clinic),
            pl.concat(assignment) if assignment else pl.DataFrame(),
        )
    return done


def counting_measures(name: str, counted: Counted, weights: Weights) -> dict[str, Resampled]:
    """Figures of a clusterer over the folds, each under the setting chosen for it.

    Args:
        name: The clusterer; the figures are called "NAME/FR" and so on.
        counted: What it counted; without folds figures are undefined, not zero.
        weights: Draws (r, procedures).
    """
    folds = counted.figures.folds
    columns: dict[str, list[float | None]] = {
        key: [fold[rate] if rate in OVER_ALL or fold["polyps"] > 1 else None for fold in folds]
        for key, rate in RATES.items()
    }
    columns["count error"] = [abs(fold["clusters"] - fold["polyps"]) for fold in folds]
    columns["exact"] = [fold["clusters"] == fold["polyps"] for fold in folds]
    columns["PPC"] = [fold["clusters"] for fold in folds]
    called = [row["adenomas_counted"] for row in (counted.clinic.rows if counted.clinic else ())]
    columns["ADR"] = [None if adenomas is None else adenomas > 0 for adenomas in called]
    measures = {}
    for key, column in columns.items():
        values = column or [None] * weights.shape[1]
        defined = [value is not None for value in values]
        sums = [value or 0.0 for value in values]
        measures[f"{name}/{key}"] = resampled_mean(sums, defined, weights)
    return measures
