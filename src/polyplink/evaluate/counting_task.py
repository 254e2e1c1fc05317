"""Counting as a task: every clusterer of a grid on every procedure, and the settings chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from polyplink.associate.clusterers import Clustering, Setting
from polyplink.associate.search import Clusterings, Grid, search
from polyplink.associate.similarity import Reals, VisualForm, visual
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.clinic import Clinic, clinic_figures, clinic_row
from polyplink.evaluate.counting import ProcedureCounts, count_partitions
from polyplink.evaluate.figures import CountingFigures, counting_figures
from polyplink.evaluate.partitions import Partitions, partitions
from polyplink.evaluate.samples import Samples

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CountedScene:
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
    known: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Counted:
    """One clusterer on all procedures with labels.

    Attributes:
        settings: Its settings.
        counts: One per procedure, under all settings.
        cuts: Of each procedure's tracklets of known polyp, the partitions under all settings.
        converged: Whether each clustering settled, (settings,) per procedure.
        figures: What came of it.
        clusterings: Each fold's procedure under the setting chosen for it.
        clinic: What a clinic asks, over the folds; None without folds.
    """

    settings: tuple[Setting, ...]
    counts: tuple[ProcedureCounts, ...]
    cuts: tuple[Partitions, ...]
    converged: tuple[npt.NDArray[np.bool_], ...]
    figures: CountingFigures
    clusterings: tuple[Clustering, ...]
    clinic: Clinic | None

    @property
    def not_converged(self) -> float:
        """Share of the clusterings of the search that did not settle."""
        return float(1 - np.concatenate(self.converged).mean())


def counted_scenes(
    unit: Reals, samples: Samples, form: VisualForm
) -> tuple[list[CountedScene], tuple[str, ...]]:
    """Procedures with a known polyp, and the names of those without.

    Args:
        unit: Embeddings (n, d) of length 1.
        samples: Whose they are.
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
        scenes.append(CountedScene(name, rows, V, samples.positions[rows], known))
    return scenes, tuple(without)


def _count(scene: CountedScene, cut: Partitions, samples: Samples) -> ProcedureCounts:
    polyps = [int(samples.polyp[row]) if samples.known[row] else None for row in scene.rows]
    return count_partitions(cut, polyps, scene.procedure)


def count_task(
    scenes: Sequence[CountedScene],
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
    swept = [search(s.V, s.positions, grid, threads=threads) for s in scenes]
    done = {}
    for name in clusterers or kinds:
        if not scenes:
            break
        cuts = [
            partitions(found[name].labels[:, scene.known])
            for scene, found in zip(scenes, swept, strict=True)
        ]
        counts = [_count(scene, cut, samples) for scene, cut in zip(scenes, cuts, strict=True)]
        figures = counting_figures(counts, kinds[name], chosen_on)
        clusterings = _chosen(scenes, figures, [found[name] for found in swept])
        done[name] = Counted(
            kinds[name],
            tuple(counts),
            tuple(cuts),
            tuple(found[name].converged for found in swept),
            figures,
            clusterings,
            _clinic(scenes, figures, clusterings, samples, adenoma),
        )
    return done


def _of_folds(scenes: Sequence[CountedScene], figures: CountingFigures) -> list[CountedScene]:
    by_name = {scene.procedure: scene for scene in scenes}
    return [by_name[fold.procedure] for fold in figures.folds]


def _chosen(
    scenes: Sequence[CountedScene], figures: CountingFigures, swept: Sequence[Clusterings]
) -> tuple[Clustering, ...]:
    """Each fold's procedure as the search clustered it under the setting chosen for it."""
    by_name = {scene.procedure: found for scene, found in zip(scenes, swept, strict=True)}
    rows = [(by_name[fold.procedure], fold.choice.row) for fold in figures.folds]
    return tuple(Clustering(found.labels[i], bool(found.converged[i])) for found, i in rows)


def _clinic(
    scenes: Sequence[CountedScene],
    figures: CountingFigures,
    clusterings: Sequence[Clustering],
    samples: Samples,
    adenoma: Sequence[bool | None] | None,
) -> Clinic | None:
    rows = []
    for scene, found in zip(_of_folds(scenes, figures), clusterings, strict=True):
        kept = scene.rows[scene.known]
        kinds = [None if adenoma is None else adenoma[row] for row in kept]
        polyps = samples.polyp[kept].tolist()
        rows.append(clinic_row(scene.procedure, found.labels[scene.known], polyps, kinds))
    return clinic_figures(rows)


def fold_rows(
    counted: Counted, scenes: Sequence[CountedScene]
) -> list[tuple[CountedScene, Clustering]]:
    """Each fold's procedure with its clustering; those of unknown polyp are left out of both."""
    found = []
    for scene, clustering in zip(
        _of_folds(scenes, counted.figures), counted.clusterings, strict=True
    ):
        part = replace(scene, rows=scene.rows[scene.known], known=scene.known[scene.known])
        labels = clustering.labels[scene.known]
        found.append((part, Clustering(labels, clustering.converged)))
    return found
