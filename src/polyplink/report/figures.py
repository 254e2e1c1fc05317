"""Figures of encoders on a part of a data set, drawn as in the papers; `plots` has their style."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from polyplink.associate.clusterers import clusterer_title
from polyplink.associate.grid_search import find_grid, search, without_links
from polyplink.associate.similarity import cosine, unit_rows, visual
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress
from polyplink.core.text import many
from polyplink.encoders.encode import Encoded
from polyplink.encoders.weights import weights_path
from polyplink.evaluate.choosing import TARGET_FPR, choose
from polyplink.evaluate.counting import ProcedureCounts, count_procedure
from polyplink.evaluate.evaluation import Evaluation, EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.reid import reidentify, roc_and_pr
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.truth import samples_of, tracklet_boxes
from polyplink.learn.bags import purity
from polyplink.learn.soft_targets import (
    IntraInterLoss,
    TemporallyAwareLoss,
    equal_codes,
    time_decay,
)
from polyplink.learn.temporal_bags import cosine_tau, sampled_bags
from polyplink.report.contents import read_history
from polyplink.report.plots import (
    GREY,
    INK,
    MARKERS,
    colour,
    draw_matrix,
    marker,
    new_figure,
    plot_style,
)
from polyplink.tracklets.box_runs import positions
from polyplink.tracklets.prepare import prepare

STEPS = 21  # points of the curriculum at which bags are drawn
MEMBERS, TAU = 4, (0.3, 12.0)  # members of a bag; temperature at either end (NTSSL, 3)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
NEAREST = 20  # largest k of the recall
TARGET_POLYPS, TARGET_TRACKLETS = 3, 4  # in the figure of targets (TA, figure 2)
FEWEST_FOR_TSNE = 10  # points; with fewer, t-SNE shows no structure
MOST_IN_LEGEND = 40  # polyps; a longer legend would hide the points

Projection = Literal["tsne", "pca"]


class FigureData(NamedTuple):
    """The data of the figures; figures of a single encoder use the first one."""

    encoded: Encoded
    subtitle: str  # data set and part
    grid: str  # name of the grid of settings to search
    threads: int  # of the search
    progress: Progress  # called for procedures searched
    weights: Sequence[Path] = ()  # of the encoders: files, runs or names
    clusterers: tuple[str, ...] = ()  # to show; empty for all

    @property
    def samples(self) -> Samples:
        """The tracklets and their polyps."""
        return samples_of(self.encoded.prepared)


@plot_style()
def draw_curriculum(data: FigureData) -> Figure:
    """Draw quantiles of the sampled ranks and the share of pure bags over the curriculum.

    NTSSL, arXiv 2605.12320, figure 2. Bags are drawn from the fragments of all procedures; polyps
    may be unknown, and no crops are needed.
    """
    # Fragments of all procedures.
    first = data.encoded.first
    length = int(first.record.recipe.get("fragment_length", 8))
    prepared = prepare(data.encoded.folder, data.encoded.prepared.settings, with_crops=False)
    table = prepared.fragments(length)
    if not table["procedure_id"].is_duplicated().any():
        raise PolyplinkError(
            f"bags need two fragments of {length} crops of one procedure, and none has two",
            "name another --part",
        )
    procedures, positions = table["procedure_id"].to_numpy(), table["position"].to_numpy()
    has_polyps = table["polyp_id"].null_count() == 0
    _, codes = np.unique(table["polyp_id"].fill_null("?").to_numpy(), return_inverse=True)

    # Ranks and purity of the bags drawn from them, along the curriculum.
    ranks, pure = {}, {}
    for c in np.linspace(0, 1, STEPS).tolist():
        rng = np.random.default_rng(0)
        bags = sampled_bags(procedures, positions, MEMBERS, cosine_tau(c, *TAU), rng)
        drawn = bags.ranks[bags.valid[:, 1:]]
        if drawn.size:
            ranks[c] = np.quantile(drawn, QUANTILES)
        if has_polyps:
            pure[c] = purity(bags, codes)

    # Both, side by side.
    words = (
        f"{table.height} fragments of {many(length, 'crop')}, "
        f"{many(len(prepared.procedures), 'procedure')}"
    )
    figure, (left, right) = new_figure(7.2, 3.1, columns=2, subtitle=words)
    c, q = np.array(list(ranks)), np.array(list(ranks.values())).T  # n, 5 n
    left.fill_between(c, q[0], q[4], color=colour(0), alpha=0.15, lw=0, label="5 to 95 %")
    left.fill_between(c, q[1], q[3], color=colour(0), alpha=0.3, lw=0, label="25 to 75 %")
    left.plot(c, q[2], color=colour(0), lw=2, label="median")
    left.set(title="Sampled ranks", xlabel="curriculum c", ylabel="rank in time", xlim=(0, 1))
    left.set_ylim(bottom=0)
    left.legend(loc="upper left")
    right.set(title="Pure bags", xlabel="curriculum c", ylabel="share", xlim=(0, 1), ylim=(0, 1.02))
    if pure:
        right.plot(list(pure), list(pure.values()), color=colour(2), lw=2)
    else:
        right.text(0.5, 0.5, "polyps unknown", ha="center", color=GREY)
    return figure


@plot_style(**{"axes.grid": False})
def draw_similarities(data: FigureData) -> Figure:
    """Draw cosine similarities in the procedure with the most polyps, a matrix per encoder.

    Rows are sorted by polyp, in order of first appearance, and by time within a polyp.
    """
    samples = data.samples
    procedure, rows = _procedure_with_most_polyps(samples)
    by_encoder = data.encoded.vectors.items()
    matrices = {name: cosine(vectors[rows]) for name, vectors in by_encoder}  # n n
    limits = min(float(S.min()) for S in matrices.values()), 1.0
    title = _title(procedure, samples.polyp[rows])
    return _side_by_side(matrices, samples.polyp[rows], title, "cosine similarity", limits)


def _procedure_with_most_polyps(samples: Samples) -> tuple[str, np.ndarray]:
    """The procedure with the most known polyps, and its tracklets of known polyps.

    Returns:
        Name of the procedure; rows (n,) of the tracklets, ordered by first appearance of the polyp,
        then by time.
    """
    counts = [
        len(np.unique(samples.polyp[samples.labelled & (samples.procedure == place)]))
        for place in range(len(samples.procedures))
    ]
    place = int(np.argmax(counts))
    rows = np.flatnonzero(samples.labelled & (samples.procedure == place))
    polyp, position = samples.polyp[rows], samples.positions[rows]
    first = {code: position[polyp == code].min() for code in np.unique(polyp)}
    start = np.array([first[code] for code in polyp])
    return samples.procedures[place], rows[np.lexsort((position, polyp, start))]


def _title(procedure: str, polyp: np.ndarray) -> str:
    """The title of a figure of a procedure, given the polyp of each tracklet (n,)."""
    polyps = many(len(np.unique(polyp)), "polyp")
    return f"Procedure {procedure}: {many(len(polyp), 'tracklet')} of {polyps}"


def _side_by_side(
    matrices: Mapping[str, np.ndarray],
    polyp: np.ndarray,
    title: str,
    label: str,
    limits: tuple[float, float],
) -> Figure:
    """Draw matrices (n, n) by name with one colour scale; equal polyps (n,) are adjacent."""
    _, starts = np.unique(polyp, return_index=True)
    sizes = np.diff([*sorted(starts), len(polyp)]).tolist()
    n = len(matrices)
    figure, axes = new_figure(3.1 * n + 0.9, 3.4, columns=n, subtitle=title)
    for axis, (name, S) in zip(axes, matrices.items(), strict=True):
        image = draw_matrix(axis, S, sizes, [str(i + 1) for i in range(len(sizes))], limits, 2.7)
        axis.set_title(name, pad=26)
    figure.colorbar(image, ax=axes, shrink=0.8, label=label)
    return figure


@plot_style(**{"axes.grid": False})
def draw_targets(data: FigureData) -> Figure:
    """Draw the losses' target weights for tracklets of the procedure with the most polyps.

    Temporally-aware counting, arXiv 2507.02493, figure 2: three polyps of four tracklets.
    """
    samples, prepared = data.samples, data.encoded.prepared
    procedure, rows = _procedure_with_most_polyps(samples)
    names = list(dict.fromkeys(samples.polyp[rows].tolist()))[:TARGET_POLYPS]
    rows = np.concatenate([rows[samples.polyp[rows] == p][:TARGET_TRACKLETS] for p in names])
    polyp, times = samples.polyp[rows], positions(prepared.tracklets, prepared.spans.polyps)
    matrices = target_matrices(polyp, times.to_numpy()[rows])
    title = _title(procedure, polyp)
    highest = max(float(weights.max()) for weights in matrices.values())
    return _side_by_side(matrices, polyp, title, "weight in the target", (0.0, highest))


def target_matrices(polyp: np.ndarray, time: np.ndarray) -> dict[str, np.ndarray]:
    """Weights of pairs in the losses' targets, before rows are normalised to sum 1.

    Args:
        polyp: (n,) code of each view's polyp, all of one procedure.
        time: (n,) time of each view, from 0 at its polyp's first frame to 1 at its last.

    Returns:
        Name of the loss -> weights (n, n); the diagonal is that of a second view at the same time.
    """
    same_label = equal_codes(torch.from_numpy(polyp))
    near = same_label * time_decay(torch.from_numpy(time), TemporallyAwareLoss.decay)
    by_loss = {
        "self-supervised": torch.eye(len(polyp), dtype=torch.float64),
        "supervised": same_label,
        "temporally aware": near,
        "intra-inter": near + IntraInterLoss.gamma,
    }
    return {name: weights.numpy() for name, weights in by_loss.items()}


def draw_losses(data: FigureData) -> Figure:
    """Draw the validation loss of runs over their epochs, a panel for each number of views."""
    losses: dict[str, dict[str, list[float]]] = {}
    for encoder, file in zip(data.encoded.encoders.values(), data.weights, strict=True):
        history = read_history(weights_path(file).parent)
        if "loss_labels" in history.columns:
            values = history["loss_labels"].fill_null(np.nan).to_list()
            views = encoder.record.recipe.get("bags", {}).get("views")
            panel = f"{many(views, 'view')} of a polyp" if views else "bags without labels"
            losses.setdefault(panel, {})[encoder.name] = values
    return plot_losses(losses)


@plot_style()
def plot_losses(losses: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw losses by panel and run, one value per epoch (thesis, figures 5.9 and 5.10)."""
    n = max(len(losses), 1)
    words = "loss on views of one polyp, held-out procedures"
    figure, axes = new_figure(3.6 * n, 3.1, columns=n, subtitle=words)
    for axis, (panel, runs) in zip(axes, losses.items(), strict=False):
        for i, (name, values) in enumerate(runs.items()):
            epochs = np.arange(1, len(values) + 1)
            axis.plot(epochs, values, color=colour(i), marker=marker(i), ms=3, label=name)
        axis.set(title=panel, xlabel="epoch", ylabel="validation loss")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axis.legend()
    if not losses:
        axes[0].text(0.5, 0.5, "no history of a training", ha="center", color=GREY)
    return figure


@plot_style()
def draw_counting(data: FigureData) -> Figure:
    """Draw FR against FPR of all clusterers: all settings, Pareto fronts and chosen settings."""
    samples, name = data.samples, data.encoded.first.name
    unit = unit_rows(data.encoded.vectors[name])
    grid = without_links(find_grid(data.grid, data.clusterers))
    if not grid:
        raise PolyplinkError(
            "the figure counting does not show learned links",
            "name another --clusterer too, or draw the figure clusterers",
        )

    # The rates of every setting in every procedure.
    counts: dict[str, list[ProcedureCounts]] = {}
    tick = partial(data.progress, "search")
    for place in range(len(samples.procedures)):
        part, rows = samples.of_procedure(place)
        if part.labelled.any():
            polyps = [int(p) if k else None for p, k in zip(part.polyp, part.labelled, strict=True)]
            by_clusterer = search(visual(unit[rows]), part.positions, grid, threads=data.threads)
            for clusterer, clusterings in by_clusterer.items():
                counted = count_procedure(clusterings.labels, polyps, part.procedures[0])
                counts.setdefault(clusterer, []).append(counted)
        tick(place + 1, len(samples.procedures))
    if not any(point.polyps > 1 for series in counts.values() for point in series):
        raise PolyplinkError(
            "no procedure has two polyps, so that FPR is undefined", "name another --part"
        )

    # Their means, with the settings that no other improves, and the one that the rule chooses.
    figure, (axis,) = new_figure(6.4, 4.0, subtitle=f"{name}; {data.subtitle}; grid: {data.grid}")
    for i, (clusterer, series) in enumerate(counts.items()):
        fr = np.mean([point.rates["fr"] for point in series], axis=0)  # s
        fpr = np.mean([point.rates["fpr"] for point in series if point.polyps > 1], axis=0)  # s
        label = clusterer_title(clusterer)
        axis.scatter(fpr, fr, s=5, color=colour(i), alpha=0.12, lw=0, rasterized=True)
        axis.step(*pareto_front(fr, fpr), where="post", color=colour(i), lw=1.8, label=label)
        choice = choose(series)
        if choice.rule == "nearest":
            at = choice.row
            axis.scatter(fpr[at], fr[at], s=30, marker=marker(i), color=colour(i))

    # The rule's targets, and axes.
    axis.axvline(TARGET_FPR, color=GREY, lw=1, ls="--")
    axis.axhline(1.0, color=GREY, lw=0.8, ls=":")
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    ticks = [v for v in (0.25, 0.5, 1, 2, 3, 5, 10, 20, 50) if low <= v <= high]
    axis.set_yticks(ticks, [f"{v:g}" for v in ticks], minor=False)
    axis.minorticks_off()
    axis.text(0.053, high, f"FPR {TARGET_FPR}", color=GREY, fontsize=8, va="top")
    axis.set(
        title="Fragmentation against false positives",
        xlabel="FPR (mean over procedures with two polyps or more)",
        ylabel="FR (clusters / polyps)",
        xlim=(-0.01, 1.01),
    )
    axis.legend(loc="upper right")
    return figure


def pareto_front(fr: np.ndarray, fpr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The settings that no other setting improves in both rates.

    Args:
        fr: (s,) fragmentation rates of the settings.
        fpr: (s,) false positive rates of the settings.

    Returns:
        FPR (m,), increasing, and FR (m,), decreasing, of these settings.
    """
    order = np.lexsort((fr, fpr))
    best = np.minimum.accumulate(fr[order])
    improves = np.concatenate([[True], best[1:] < best[:-1]])
    return fpr[order][improves], fr[order][improves]


@plot_style()
def draw_recall(data: FigureData) -> Figure:
    """Draw the share of queries with a match among the k nearest, for each encoder."""
    figure, (axis,) = new_figure(6.0, 3.6, subtitle=data.subtitle)
    samples, max_k = data.samples, 0
    for i, (name, vectors) in enumerate(data.encoded.vectors.items()):
        share = recall_at(vectors, samples)  # k
        max_k = max(max_k, len(share))
        k = np.arange(1, len(share) + 1)
        axis.plot(k, share, color=colour(i), lw=1.8, marker=MARKERS[i % 5], ms=4, label=name)
    axis.set(
        title="Recall at k",
        xlabel="k nearest tracklets",
        ylabel="share of queries with a match",
        xlim=(0.5, max_k + 0.5),
        ylim=(0, 1.03),
    )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.legend(loc="lower right")
    return figure


def recall_at(vectors: np.ndarray, samples: Samples, max_k: int = NEAREST) -> np.ndarray:
    """Share of queries with a match among the k nearest, for k = 1 to `max_k`: (max_k,).

    Args:
        vectors: (n, d).
        samples: The tracklets of the vectors.
        max_k: Largest k, reduced to the number of other tracklets.

    Raises:
        PolyplinkError: If no tracklet has a match.
    """
    retrieved = retrieve(vectors, samples)
    ranks = retrieved.best_rank[retrieved.valid]
    if not ranks.size:
        raise PolyplinkError(
            "no tracklet has another of its polyp, so that recall is undefined",
            "name another --part",
        )
    k = max(1, min(max_k, int(samples.labelled.sum()) - 1))
    return np.asarray((ranks[:, None] <= np.arange(1, k + 1)).mean(axis=0))  # q k -> k


@plot_style()
def draw_reid(data: FigureData) -> Figure:
    """Draw ROC and precision-recall curves of re-identification, for each encoder."""
    figure, (roc, pr) = new_figure(7.2, 3.6, columns=2, subtitle=data.subtitle)
    samples = data.samples
    for i, (name, vectors) in enumerate(data.encoded.vectors.items()):
        pairs = reidentify(vectors, samples)
        if pairs.counts is None:
            raise PolyplinkError(
                "no two tracklets of one polyp, or none of two, so that re-identification is "
                "undefined",
                "name another --part",
            )
        fpr, tpr, precision = roc_and_pr(pairs.counts)
        line: Any = {"color": colour(i), "lw": 1.6}
        roc.plot([0, *fpr], [0, *tpr], label=f"{name}, {pairs.auroc:.3f}", **line)
        pr.step([0, *tpr], [precision[0], *precision], label=f"{name}, {pairs.aupr:.3f}", **line)
    chance = pairs.positives / (pairs.positives + pairs.negatives)
    roc.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls=":")
    pr.axhline(chance, color=GREY, lw=0.8, ls=":")
    roc.set(title="ROC", xlabel="false positive rate", ylabel="true positive rate")
    pr.set(title="Precision and recall", xlabel="recall", ylabel="precision")
    for axis, area in ((roc, "AUROC"), (pr, "AUPR")):
        axis.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
        axis.legend(title=area)
    return figure


BARS = {  # figure -> title; as in the thesis, figures 5.1 to 5.8
    "{}/FPR as published": "FPR (as published)",
    "{}/FR": "FR",
    "{}/precision with self": "precision (as published)",
    "{}/recall with self": "recall (as published)",
    "tracking/{}/AssA mean": "AssA",
    "tracking/{}/AssPr mean": "AssPr",
    "tracking/{}/AssRe mean": "AssRe",
    "tracking/{}/IDF1 mean": "IDF1",
}


def draw_clusterers(data: FigureData) -> Figure:
    """Draw counting and tracking by encoder and clusterer, settings chosen on other procedures."""
    settings = EvaluationSettings(
        find_grid(data.grid, data.clusterers),
        threads=data.threads,
        tasks=("counting", "tracking"),
    )
    encoded, samples = data.encoded, data.samples
    evaluated, _ = evaluate_embeddings(
        encoded.vectors, samples, settings, boxes=tracklet_boxes(encoded.prepared, samples)
    )
    return draw_bars(evaluated, f"{data.subtitle}; grid: {data.grid}; means and 95 % intervals")


@plot_style(**{"axes.grid.axis": "y"})
def draw_bars(evaluation: Evaluation, subtitle: str) -> Figure:
    """Draw a bar per encoder and clusterer, see `BARS`; undefined figures have no bar.

    Args:
        evaluation: An evaluation of the tasks counting and tracking.
        subtitle: Description of the data and the settings.
    """
    figure, axes = new_figure(12.0, 5.6, rows=2, columns=4, subtitle=subtitle)
    kinds = list(evaluation.encoders[evaluation.reference].counting)
    width = 0.8 / len(evaluation.encoders)
    for axis, (key, title) in zip(axes, BARS.items(), strict=True):
        for i, (name, encoder) in enumerate(evaluation.encoders.items()):
            bars = [encoder.figures[key.format(kind)] for kind in kinds]
            rows = [[f.value, f.low, f.high] for f in bars]
            value, low, high = np.array(rows, dtype=np.float64).T  # None is NaN
            at = np.arange(len(kinds)) + (i + 0.5) * width - 0.4
            spread = np.maximum([value - low, high - value], 0)
            axis.bar(at, value, width, color=colour(i), label=name)
            axis.errorbar(at, value, spread, fmt="none", ecolor=INK, elinewidth=0.8)
        if not any(bar.is_defined for bar in bars):
            axis.text(0.5, 0.5, "undefined", ha="center", color=GREY, transform=axis.transAxes)
        names = [clusterer_title(kind).replace("affinity propagation", "AP") for kind in kinds]
        axis.set_xticks(range(len(kinds)), names, rotation=40, ha="right")
        axis.set(title=title)
        axis.set_ylim(bottom=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def draw_map(data: FigureData) -> Figure:
    """Draw the first encoder's vectors, projected to the plane by t-SNE."""
    return draw_vectors(data, "tsne")


def draw_pca(data: FigureData) -> Figure:
    """Draw the first encoder's vectors, projected to the plane by PCA."""
    return draw_vectors(data, "pca")


@plot_style()
def draw_vectors(data: FigureData, projection: Projection) -> Figure:
    """Draw the first encoder's vectors, projected to the plane; colour and marker show polyps."""
    polyps, encoder = data.encoded.table["polyp_id"].to_numpy(), data.encoded.first.name
    rows = np.flatnonzero([polyp is not None for polyp in polyps])
    points = project(data.encoded.vectors[encoder][rows], projection)  # n 2
    names = list(dict.fromkeys(polyps[rows].tolist()))
    with_legend = len(names) <= MOST_IN_LEGEND
    figure, (axis,) = new_figure(6.6, 4.4, subtitle=f"{encoder}; {data.subtitle}")
    dots: Any = {"s": 26, "edgecolor": "white", "linewidth": 0.5, "alpha": 0.9}
    for i, name in enumerate(names):
        x, y = points[polyps[rows] == name].T
        label = name if with_legend else None
        axis.scatter(x, y, color=colour(i), marker=marker(i), label=label, **dots)
    method = "PCA" if projection == "pca" or len(rows) < FEWEST_FOR_TSNE else "t-SNE of cosines"
    axis.set(title=f"Tracklets by polyp ({method})", xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.spines[:].set_visible(True)
    axis.spines[:].set_color("#d0d0d0")
    if with_legend:
        columns, anchor = 1 + (len(names) - 1) // 20, (1.0, 0.5)
        axis.legend(
            title="polyp", fontsize=7, ncols=columns, loc="center left", bbox_to_anchor=anchor
        )
    return figure


def project(vectors: np.ndarray, method: Projection) -> np.ndarray:
    """Normalise vectors to length 1 and project them to the plane.

    Args:
        vectors: (n, d), n at least 2.
        method: "tsne" (on cosines) or "pca", which is always used for fewer than ten vectors.

    Returns:
        Points (n, 2).

    Raises:
        PolyplinkError: If there are fewer than two vectors, or one is zero or not finite.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if len(vectors) < 2 or not np.isfinite(norms).all() or (norms == 0).any():
        raise PolyplinkError(
            f"{len(vectors)} vectors to draw, or one that is zero or not finite",
            "name another --part, with more tracklets",
        )
    unit = (vectors / norms).astype(np.float64)  # n d
    if method == "pca" or len(unit) < FEWEST_FOR_TSNE:
        flat = PCA(2).fit_transform(unit) if unit.shape[1] > 1 else np.c_[unit, 0 * unit]
        return np.asarray(flat)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="random", random_state=0)
    return np.asarray(tsne.fit_transform(unit))
