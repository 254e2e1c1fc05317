"""Figures of encoders on a data set: what the papers draw, and what helps to see why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from polyplink.associate import visual
from polyplink.associate.search import search
from polyplink.associate.similarity import unit_rows
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.encoders import read_record, weights_path
from polyplink.evaluate import Samples, count_procedure, retrieve
from polyplink.jobs.embedding import kept, prepare_part
from polyplink.jobs.evaluation import find_grid, samples_of
from polyplink.jobs.progress import Progress, counter, silent
from polyplink.jobs.variants import loaded_subject
from polyplink.learn.bags import purity
from polyplink.learn.temporal_bags import cosine_tau, sampled_bags
from polyplink.report.plots import (
    FEWEST_FOR_TSNE,
    Projection,
    plot_curriculum,
    plot_projection,
    plot_rates,
    plot_recall,
    plot_similarities,
    project,
    write_figure,
)
from polyplink.tracklets import Prepared, prepare

STEPS = 21  # points of the curriculum that bags are drawn at
MEMBERS, TAU = 4, (0.3, 12.0)  # of a bag; its temperature at both ends (NTSSL, 3)
NEAREST = 20  # k of the recall


@dataclass(frozen=True)
class Scene:
    """Encoders on one part of a data set.

    Attributes:
        samples: The tracklets.
        vectors: Encoder -> vectors (n, d); the first is the one drawn alone.
        polyps: Name of each tracklet's polyp, None where unknown.
        words: Data set and part, for subtitles.
        grid: Settings to search, by name.
        fragments: Crops of a training fragment.
        folder: The data folder.
        prepared: The tracklets with their crops.
        workers: Threads for the search.
        progress: Told of the procedures that are searched.
    """

    samples: Samples
    vectors: Mapping[str, np.ndarray]
    polyps: Sequence[str | None]
    words: str
    grid: str
    fragments: int
    folder: Path
    prepared: Prepared
    workers: int
    progress: Progress

    @property
    def first(self) -> str:
        """The encoder that is drawn alone."""
        return next(iter(self.vectors))


def draw_bags(scene: Scene) -> Figure:
    """Sampled ranks and pure bags over the curriculum, of all procedures; crops are not needed."""
    whole = prepare(scene.folder, scene.prepared.settings, with_crops=False)
    table = whole.fragments(scene.fragments)
    if table.height < 2:
        raise PolyplinkError(
            f"{table.height} fragments of {scene.fragments} crops to draw bags from",
            "give a data set with longer tracklets",
        )
    procedures = table["procedure_id"].to_numpy()
    positions = table["position"].to_numpy()
    known = table["polyp_id"].null_count() == 0
    _, codes = np.unique(table["polyp_id"].fill_null("?").to_numpy(), return_inverse=True)
    ranks, pure = {}, {}
    for c in np.linspace(0, 1, STEPS).tolist():
        rng = np.random.default_rng(0)
        bags = sampled_bags(procedures, positions, MEMBERS, cosine_tau(c, *TAU), rng)
        drawn = bags.ranks[bags.valid[:, 1:]]
        if drawn.size:
            ranks[c] = drawn
        if known:
            pure[c] = purity(bags, codes)
    words = (
        f"{table.height} fragments of {scene.fragments} crops, {len(whole.procedures)} procedures"
    )
    return plot_curriculum(ranks, pure, words)


def draw_similarities(scene: Scene) -> Figure:
    """Similarity matrices of the procedure with the most polyps, encoder by encoder."""
    samples = scene.samples
    polyps = [
        len(np.unique(samples.polyp[samples.known & (samples.procedure == place)]))
        for place in range(len(samples.procedures))
    ]
    place = int(np.argmax(polyps))
    part, rows = samples.of_procedure(place)
    vectors = {name: found[rows] for name, found in scene.vectors.items()}
    title = f"Procedure {part.procedures[0]}: {rows.size} tracklets of {polyps[place]} polyps"
    return plot_similarities(vectors, part.polyp.tolist(), part.positions, title)


def draw_counting(scene: Scene) -> Figure:
    """FR against FPR over the whole grid, all clusterers."""
    grid, samples = find_grid(scene.grid), scene.samples
    unit = unit_rows(scene.vectors[scene.first])
    rates: dict[str, list[tuple[np.ndarray, np.ndarray | None]]] = {}
    tick = counter(scene.progress, "search")
    for place in range(len(samples.procedures)):
        part, rows = samples.of_procedure(place)
        if part.known.any():
            polyps = [int(p) if k else None for p, k in zip(part.polyp, part.known, strict=True)]
            V = visual(unit[rows])
            for name, found in search(V, part.positions, grid, threads=scene.workers).items():
                counts = count_procedure(found.labels, polyps, part.procedures[0])
                several = counts.fpr if counts.polyps > 1 else None
                rates.setdefault(name, []).append((counts.fr, several))
        tick(place + 1, len(samples.procedures))
    drawn = {}
    for name, each in rates.items():
        fprs = [fpr for _, fpr in each if fpr is not None]
        if not fprs:
            raise PolyplinkError(
                "no procedure has two polyps, so that FPR is undefined", "name another --part"
            )
        drawn[name] = (np.mean([fr for fr, _ in each], axis=0), np.mean(fprs, axis=0))
    return plot_rates(drawn, f"{scene.first}; {scene.words}; grid: {scene.grid}")


def recall_at(vectors: np.ndarray, samples: Samples, most: int = NEAREST) -> np.ndarray:
    """Share of queries with a match among the k nearest, for k = 1 to `most` (k,).

    Args:
        vectors: (n, d).
        samples: Whose they are.
        most: Largest k; no more than there are other tracklets.

    Raises:
        PolyplinkError: If no tracklet has a match.
    """
    found = retrieve(vectors, samples)
    ranks = found.best_rank[found.valid]
    PolyplinkError.unless(
        bool(ranks.size),
        "no tracklet has another of its polyp, so that recall is undefined",
        "name another --part",
    )
    k = max(1, min(most, int(samples.known.sum()) - 1))
    return np.asarray((ranks[:, None] <= np.arange(1, k + 1)).mean(axis=0))  # q k -> k


def draw_nearest(scene: Scene) -> Figure:
    """Recall at k, encoder by encoder."""
    hits = {name: recall_at(found, scene.samples) for name, found in scene.vectors.items()}
    return plot_recall(hits, scene.words)


def draw_vectors(scene: Scene, way: Projection = "tsne") -> Figure:
    """The first encoder's vectors in the plane, by polyp."""
    rows = [row for row, polyp in enumerate(scene.polyps) if polyp is not None]
    points = project(scene.vectors[scene.first][rows], way)
    how = "PCA" if way == "pca" or len(rows) < FEWEST_FOR_TSNE else "t-SNE of cosines"
    names = [str(scene.polyps[row]) for row in rows]
    subtitle = f"{scene.first}; {scene.words}"
    return plot_projection(points, names, f"Tracklets by polyp ({how})", subtitle)


FIGURES: Mapping[str, Callable[[Scene], Figure]] = {
    "curriculum": draw_bags,
    "similarity": draw_similarities,
    "counting": draw_counting,
    "recall": draw_nearest,
    "map": draw_vectors,
    "pca": partial(draw_vectors, way="pca"),
}


def draw(
    weights: Path,
    folder: Path,
    out: Path,
    *,
    beside: Mapping[str, Path] | None = None,
    only: Sequence[str] = (),
    part: str = "eval",
    grid: str = "demo",
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> list[Path]:
    """Draw figures of an encoder, and of others beside it, as SVG and PNG.

    Args:
        weights: Weights file, or the folder of a training run.
        folder: The data folder.
        out: Folder to write.
        beside: Name -> other weights, in the figures that compare.
        only: Names of figures; all by default.
        part: Part of the data set; its polyps must be known.
        grid: Settings searched for the counting figure.
        device: Where to embed.
        workers: Threads.
        progress: Told of crops, tracklets and figures.

    Raises:
        PolyplinkError: If a figure is unknown, polyps are unknown, the encoders have crops of
            different kinds, or weights, data folder or an image is at fault.
    """
    wanted = {name: find_named("figure", name, FIGURES) for name in only or FIGURES}
    record = RunRecord("figures", settings={"weights": weights, "part": part, "only": only})
    record.claim(out)
    with record.stage("embed"):
        scene = _scene(weights, folder, beside or {}, part, grid, device, workers, progress)
    record.inputs |= {"data": scene.prepared.data.key, "crops": scene.prepared.key}
    written: list[Path] = []
    for done, (name, call) in enumerate(wanted.items(), start=1):
        with record.stage(name):
            written += write_figure(out, name, call(scene))
        progress("figures", done, len(wanted))
    record.write(out)
    return written


def _scene(  # noqa: PLR0917
    weights: Path,
    folder: Path,
    beside: Mapping[str, Path],
    part: str,
    grid: str,
    device: str,
    workers: int,
    progress: Progress,
) -> Scene:
    first = loaded_subject(weights, device)
    fragments = read_record(weights_path(weights)).recipe.get("fragment_length", 8)
    prepared = prepare_part(folder, first.how, part, workers, progress)
    samples = samples_of(prepared)
    found, _ = kept(prepared, first.embedder, first.key, first.device, progress)
    vectors = {first.name: found.vectors}
    for name, path in beside.items():
        other = loaded_subject(path, device)
        own = prepare_part(folder, other.how, part, workers, progress)
        if list(own.tracklets["tracklet_id"]) != list(prepared.tracklets["tracklet_id"]):
            raise PolyplinkError(
                f"{name} is made for tracklets of another kind (length or IoU)",
                "draw it alone",
            )
        vectors[name] = kept(own, other.embedder, other.key, other.device, progress)[0].vectors
    names = sorted(set(prepared.data.procedures["dataset"]))
    words = f"{', '.join(names)}, part {part}: {len(samples.procedures)} procedures"
    polyps = prepared.tracklets["polyp_id"].to_list()
    return Scene(
        samples,
        vectors,
        polyps,
        words,
        grid,
        int(fragments),
        folder,
        prepared,
        workers,
        progress,
    )
