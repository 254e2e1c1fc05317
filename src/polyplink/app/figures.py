"""The verb `figures`: plots of encoders on a data set, as the papers draw them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from polyplink.app.evaluate import find_grid
from polyplink.app.request import (
    Data,
    Device,
    Out,
    Progress,
    Result,
    Weights,
    Workers,
    counter,
    named_files,
    silent,
)
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError, find_named

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from polyplink.app.encoded import Encoded
    from polyplink.evaluate import Samples
    from polyplink.report.plots import Projection

STEPS = 21  # points of the curriculum that bags are drawn at
MEMBERS, TAU = 4, (0.3, 12.0)  # of a bag; its temperature at both ends (NTSSL, 3)
NEAREST = 20  # k of the recall


@dataclass(frozen=True)
class FiguresRequest:
    """Which figures, and of which encoders."""

    weights: Weights
    data: Data
    out: Out = Path("figures")
    beside: Annotated[
        Sequence[str], Option(help="NAME=WEIGHTS: another encoder to compare with.")
    ] = ()
    only: Annotated[
        Sequence[str],
        Option(help="curriculum, similarity, counting, recall, map or pca; all by default."),
    ] = ()
    part: Annotated[str, Option(help="Part of the data set.")] = "eval"
    grid: Annotated[str, Option(help="Settings searched: paper or demo.")] = "demo"
    device: Device = "auto"
    workers: Workers = 2


@dataclass(frozen=True)
class Shown:
    """What the figures show.

    Attributes:
        encoded: Encoders on one part of a data set; the first is used where a figure shows one
            encoder.
        subtitle: Data set and part.
        fragments: Crops of a training fragment.
        request: Grid and threads of the search.
        progress: Called for procedures searched.
    """

    encoded: "Encoded"
    subtitle: str
    fragments: int
    request: FiguresRequest
    progress: Progress


def draw(request: FiguresRequest, progress: Progress = silent) -> Result[list[Path]]:
    """Plot ranks and purity, similarities, FR against FPR, recall at k, and t-SNE or PCA.

    Raises:
        PolyplinkError: If a figure is unknown, polyps are unknown, the encoders have crops of
            different kinds, or weights, data folder or an image is at fault.
    """
    from polyplink.app.encoded import encode, load_named
    from polyplink.report.plots import write_figure

    wanted = {name: find_named("figure", name, FIGURES) for name in request.only or FIGURES}
    others = named_files("--beside", request.beside)
    asked = {"weights": request.weights, "part": request.part, "only": request.only}
    record = RunRecord("figures", settings=asked)
    record.claim(request.out)
    with record.stage("embed"):
        first = load_named(request.weights, request.device)
        encoded = encode(
            [first], request.data, request.part, workers=request.workers, progress=progress
        )
        samples = encoded.samples  # unknown polyps are refused before other encoders embed
        named = [load_named(path, request.device, name) for name, path in others.items()]
        encoded = encoded.add(named, request.workers, progress)
    prepared = encoded.prepared
    record.inputs |= {"data": prepared.data.key, "crops": prepared.key}
    names = ", ".join(sorted(set(prepared.data.procedures["dataset"])))
    subtitle = f"{names}, part {request.part}: {len(samples.procedures)} procedures"
    assert first.record is not None
    fragments = int(first.record.recipe.get("fragment_length", 8))
    shown = Shown(encoded, subtitle, fragments, request, progress)
    written: list[Path] = []
    for done, (name, call) in enumerate(wanted.items(), start=1):
        with record.stage(name):
            written += write_figure(request.out, name, call(shown))
        progress("figures", done, len(wanted))
    record.write(request.out)
    return Result(written, shown=[str(path) for path in written])


def draw_bags(shown: Shown) -> "Figure":
    """Sampled ranks and pure bags over the curriculum, of all procedures; needs no crops."""
    import numpy as np

    from polyplink.learn.bags import purity
    from polyplink.learn.temporal_bags import cosine_tau, sampled_bags
    from polyplink.report.plots import plot_curriculum
    from polyplink.tracklets import prepare

    length = shown.fragments
    whole = prepare(shown.request.data, shown.encoded.prepared.settings, with_crops=False)
    table = whole.fragments(length)
    if table.height < 2:
        raise PolyplinkError(
            f"{table.height} fragments of {length} crops to draw bags from",
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
    words = f"{table.height} fragments of {length} crops, {len(whole.procedures)} procedures"
    return plot_curriculum(ranks, pure, words)


def draw_similarities(shown: Shown) -> "Figure":
    """Similarity matrices of the procedure with the most polyps, encoder by encoder."""
    import numpy as np

    from polyplink.report.plots import plot_similarities

    samples = shown.encoded.samples
    polyps = [
        len(np.unique(samples.polyp[samples.known & (samples.procedure == place)]))
        for place in range(len(samples.procedures))
    ]
    place = int(np.argmax(polyps))
    part, rows = samples.of_procedure(place)
    vectors = {name: found[rows] for name, found in shown.encoded.vectors.items()}
    title = f"Procedure {part.procedures[0]}: {rows.size} tracklets of {polyps[place]} polyps"
    return plot_similarities(vectors, part.polyp.tolist(), part.positions, title)


def draw_counting(shown: Shown) -> "Figure":
    """FR against FPR over the whole grid, all clusterers."""
    import numpy as np

    from polyplink.associate import search, visual
    from polyplink.associate.similarity import unit_rows
    from polyplink.evaluate import count_procedure
    from polyplink.report.plots import plot_rates

    request, samples = shown.request, shown.encoded.samples
    name, grid = shown.encoded.first.name, find_grid(request.grid)
    unit = unit_rows(shown.encoded.vectors[name])
    rates: dict[str, list[tuple[np.ndarray, np.ndarray | None]]] = {}
    tick = counter(shown.progress, "search")
    for place in range(len(samples.procedures)):
        part, rows = samples.of_procedure(place)
        if part.known.any():
            polyps = [int(p) if k else None for p, k in zip(part.polyp, part.known, strict=True)]
            V = visual(unit[rows])
            searched = search(V, part.positions, grid, threads=request.workers)
            for clusterer, found in searched.items():
                counts = count_procedure(found.labels, polyps, part.procedures[0])
                several = counts.rates["fpr"] if counts.polyps > 1 else None
                rates.setdefault(clusterer, []).append((counts.rates["fr"], several))
        tick(place + 1, len(samples.procedures))
    drawn = {}
    for clusterer, each in rates.items():
        fprs = [fpr for _, fpr in each if fpr is not None]
        if not fprs:
            raise PolyplinkError(
                "no procedure has two polyps, so that FPR is undefined", "name another --part"
            )
        drawn[clusterer] = (np.mean([fr for fr, _ in each], axis=0), np.mean(fprs, axis=0))
    return plot_rates(drawn, f"{name}; {shown.subtitle}; grid: {request.grid}")


def recall_at(vectors: "np.ndarray", samples: "Samples", most: int = NEAREST) -> "np.ndarray":
    """Share of queries with a match among the k nearest, for k = 1 to `most` (k,).

    Args:
        vectors: (n, d).
        samples: Whose they are.
        most: Largest k; no more than there are other tracklets.

    Raises:
        PolyplinkError: If no tracklet has a match.
    """
    import numpy as np

    from polyplink.evaluate import retrieve

    found = retrieve(vectors, samples)
    ranks = found.best_rank[found.valid]
    PolyplinkError.unless(
        bool(ranks.size),
        "no tracklet has another of its polyp, so that recall is undefined",
        "name another --part",
    )
    k = max(1, min(most, int(samples.known.sum()) - 1))
    return np.asarray((ranks[:, None] <= np.arange(1, k + 1)).mean(axis=0))  # q k -> k


def draw_nearest(shown: Shown) -> "Figure":
    """Recall at k, encoder by encoder."""
    from polyplink.report.plots import plot_recall

    samples = shown.encoded.samples
    hits = {name: recall_at(found, samples) for name, found in shown.encoded.vectors.items()}
    return plot_recall(hits, shown.subtitle)


def draw_vectors(shown: Shown, way: "Projection" = "tsne") -> "Figure":
    """The first encoder's vectors in the plane, by polyp."""
    from polyplink.report.plots import FEWEST_FOR_TSNE, plot_projection, project

    polyps, name = shown.encoded.table["polyp_id"].to_list(), shown.encoded.first.name
    rows = [row for row, polyp in enumerate(polyps) if polyp is not None]
    points = project(shown.encoded.vectors[name][rows], way)
    how = "PCA" if way == "pca" or len(rows) < FEWEST_FOR_TSNE else "t-SNE of cosines"
    names = [str(polyps[row]) for row in rows]
    subtitle = f"{name}; {shown.subtitle}"
    return plot_projection(points, names, f"Tracklets by polyp ({how})", subtitle)


FIGURES: "Mapping[str, Callable[[Shown], Figure]]" = {
    "curriculum": draw_bags,
    "similarity": draw_similarities,
    "counting": draw_counting,
    "recall": draw_nearest,
    "map": draw_vectors,
    "pca": partial(draw_vectors, way="pca"),
}
