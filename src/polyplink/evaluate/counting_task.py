"""Counting as a task: cluster every procedure under a whole grid, choose settings, report figures.

What a clinic asks of a count is here too: polyps per colonoscopy (PPC), adenomas per colonoscopy
(APC) and the share of colonoscopies with an adenoma (ADR). Each is given as it is, from the polyps
with a tracklet, and as counted, from the clusters. A cluster is an adenoma if at least half of its
tracklets of known histology show one: this counts histologists' findings, not a classifier's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.clusterers import Setting
from polyplink.associate.search import Grid, search
from polyplink.associate.similarity import Reals, VisualForm, visual
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.choosing import RATES, CountingFigures, counting_figures
from polyplink.evaluate.counting import Partitions, ProcedureCounts, count_partitions, partitions
from polyplink.evaluate.intervals import Resampled, Weights, resampled_mean
from polyplink.evaluate.samples import Ints, Samples

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Scene:
    """One procedure as the clusterers see it.

    Attributes:
        procedure: Its name.
        rows: Its rows of the samples (n,).
        V: Visual similarity (n, n).
        positions: Positions (n,).
        known: Whether each tracklet's polyp is known (n,).
    """

    procedure: str
    rows: Ints
    V: Reals
    positions: Reals
    known: Flags

    @property
    def labelled(self) -> Ints:
        """Rows of the samples of known polyp."""
        return self.rows[self.known]


def counted_scenes(
    unit: Reals, samples: Samples, form: VisualForm
) -> tuple[list[Scene], tuple[str, ...]]:
    """Procedures with a known polyp, and the names of those without.

    Args:
        unit: Embeddings (n, d) of length 1.
        samples: The tracklets of these vectors.
        form: Form of the visual similarity.
    """
    scenes, without = [], []
    for place, name in enumerate(samples.procedures):
        rows = np.flatnonzero(samples.procedure == place)
        known = samples.known[rows]
        if not known.any():
            without.append(name)
            continue
        V = visual(unit[rows], form)
        scenes.append(Scene(name, rows, V, samples.positions[rows], known))
    return scenes, tuple(without)


@dataclass(frozen=True)
class ClinicRow:
    """One procedure as a clinic counts it.

    Attributes:
        procedure: Its name.
        polyps: Polyps that have a tracklet.
        counted: Clusters.
        adenomas: Polyps that are adenomas; None where no histology is known.
        adenomas_counted: Clusters called adenoma; None likewise.
    """

    procedure: str
    polyps: int
    counted: int
    adenomas: int | None
    adenomas_counted: int | None


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
        rows: One per procedure.
    """

    procedures: int
    ppc: float
    ppc_counted: float
    with_histology: int
    apc: float | None
    apc_counted: float | None
    adr: float | None
    adr_counted: float | None
    rows: tuple[ClinicRow, ...]


def clinic_row(
    procedure: str, labels: npt.ArrayLike, polyps: Sequence[int], adenoma: Sequence[bool | None]
) -> ClinicRow:
    """Count one procedure.

    Args:
        procedure: Its name.
        labels: Cluster of every tracklet of known polyp (n,).
        polyps: Its polyp (n,).
        adenoma: Whether that is an adenoma (n,); None where unknown.
    """
    clusters, of = np.unique(np.asarray(labels), return_inverse=True)
    known = np.array([kind is not None for kind in adenoma], dtype=np.bool_)
    yes = np.array([bool(kind) for kind in adenoma], dtype=np.bool_)
    votes = np.bincount(of, weights=yes, minlength=clusters.size)
    against = np.bincount(of, weights=known & ~yes, minlength=clusters.size)
    called = int(((votes > 0) & (votes >= against)).sum())  # a tie is called adenoma: it is one
    true = np.unique(np.asarray(polyps)[yes]).size
    found = (true, called) if known.any() else (None, None)
    return ClinicRow(procedure, len(set(polyps)), int(clusters.size), *found)


def clinic_figures(rows: Sequence[ClinicRow]) -> Clinic | None:
    """The rates over procedures; None where nothing was counted."""
    if not rows:
        return None
    true = [row.adenomas for row in rows if row.adenomas is not None]
    called = [row.adenomas_counted for row in rows if row.adenomas_counted is not None]

    def mean(values: Sequence[int] | Sequence[bool]) -> float | None:
        return float(np.mean(values)) if values else None

    return Clinic(
        procedures=len(rows),
        ppc=float(np.mean([row.polyps for row in rows])),
        ppc_counted=float(np.mean([row.counted for row in rows])),
        with_histology=len(true),
        apc=mean(true),
        apc_counted=mean(called),
        adr=mean([adenomas > 0 for adenomas in true]),
        adr_counted=mean([adenomas > 0 for adenomas in called]),
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
        rows: Of each fold, its tracklets of known polyp: rows of the samples.
        labels: Their clusters.
        fold_converged: Whether the fold's clustering converged.
        clinic: What a clinic asks, over the folds; None without folds.
    """

    settings: tuple[Setting, ...]
    counts: tuple[ProcedureCounts, ...]
    cuts: tuple[Partitions, ...]
    converged: tuple[Flags, ...]
    figures: CountingFigures
    rows: tuple[Ints, ...]
    labels: tuple[Ints, ...]
    fold_converged: tuple[bool, ...]
    clinic: Clinic | None

    @property
    def not_converged(self) -> float:
        """Share of the clusterings of the search that did not converge."""
        return float(1 - np.concatenate(self.converged).mean())


def count_task(
    scenes: Sequence[Scene],
    samples: Samples,
    grid: Grid,
    *,
    clusterers: Sequence[str] = (),
    chosen_on: Sequence[str] = (),
    adenoma: Sequence[bool | None] | None = None,
    threads: int = 1,
) -> dict[str, Counted]:
    """Count with every clusterer of the grid.

    Args:
        scenes: The procedures, see `counted_scenes`.
        samples: All tracklets.
        grid: Settings to search.
        clusterers: Those to report; none: all of the grid.
        chosen_on: Procedures to choose settings on, the others being counted; none: leave one
            out.
        adenoma: Whether each tracklet's polyp is an adenoma (n,), None where unknown.
        threads: Threads for the search.

    Raises:
        PolyplinkError: If a clusterer has no setting in the grid.
    """
    grid = grid.only(clusterers) if clusterers else grid
    kinds = grid.by_clusterer()
    if not kinds:
        raise PolyplinkError("the grid has no setting", "give it parameters, or use paper_grid()")
    if not scenes:
        return {}
    swept = [search(s.V, s.positions, grid, threads=threads) for s in scenes]
    places = {scene.procedure: place for place, scene in enumerate(scenes)}
    done = {}
    for name in clusterers or kinds:
        cuts, counts = [], []
        for scene, found in zip(scenes, swept, strict=True):
            cuts.append(partitions(found[name].labels[:, scene.known]))
            polyps = [
                int(samples.polyp[row]) if known else None
                for row, known in zip(scene.rows, scene.known, strict=True)
            ]
            counts.append(count_partitions(cuts[-1], polyps, scene.procedure))
        figures = counting_figures(counts, kinds[name], chosen_on)
        rows, labels, fold_converged, clinic = [], [], [], []
        for fold in figures.folds:
            place, setting = places[fold.procedure], fold.choice.row
            scene, under = scenes[place], swept[place][name]
            rows.append(scene.labelled)
            labels.append(under.labels[setting][scene.known])
            fold_converged.append(bool(under.converged[setting]))
            own = [None if adenoma is None else adenoma[row] for row in scene.labelled]
            polyp = samples.polyp[scene.labelled].tolist()
            clinic.append(clinic_row(fold.procedure, labels[-1], polyp, own))
        done[name] = Counted(
            kinds[name],
            tuple(counts),
            tuple(cuts),
            tuple(found[name].converged for found in swept),
            figures,
            tuple(rows),
            tuple(labels),
            tuple(fold_converged),
            clinic_figures(clinic),
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
        key: [
            # FR is over all procedures, the rest over those with two polyps or more.
            getattr(fold, attribute) if key == "FR" or fold.polyps > 1 else None
            for fold in folds
        ]
        for key, attribute in RATES.items()
    }
    columns["count error"] = [float(abs(fold.clusters - fold.polyps)) for fold in folds]
    columns["exact"] = [float(fold.clusters == fold.polyps) for fold in folds]
    rows = counted.clinic.rows if counted.clinic is not None else ()
    columns["PPC"] = [float(row.counted) for row in rows]
    columns["ADR"] = [
        None if row.adenomas_counted is None else float(row.adenomas_counted > 0) for row in rows
    ]
    measures = {}
    for key, column in columns.items():
        values = column or [None] * weights.shape[1]
        defined = [float(value is not None) for value in values]
        sums = [value or 0.0 for value in values]
        measures[f"{name}/{key}"] = resampled_mean(sums, defined, weights)
    return measures


def assignment_table(
    name: str, counted: Counted, samples: Samples, tracks: Sequence[npt.NDArray[np.integer]] = ()
) -> pl.DataFrame:
    """Cluster and track of every tracklet of known polyp under its fold's setting.

    Args:
        name: The clusterer.
        counted: What it counted.
        samples: All tracklets.
        tracks: Of each fold, the tracks of its tracklets; none without tracking.
    """
    parts = [
        pl.DataFrame(
            {
                "clusterer": name,
                "procedure_id": fold.procedure,
                "tracklet_id": [samples.tracklet_ids[row] for row in counted.rows[place]],
                "cluster": pl.Series(counted.labels[place], dtype=pl.Int64),
                "track": pl.Series(tracks[place], dtype=pl.Int64) if len(tracks) else None,
                "converged": counted.fold_converged[place],
            },
            schema_overrides={"track": pl.Int64},
        )
        for place, fold in enumerate(counted.figures.folds)
    ]
    return pl.concat(parts) if parts else pl.DataFrame()
