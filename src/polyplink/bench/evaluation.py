"""Cases from boxes and vectors to figures: tracklets, retrieval, reid, tracking, the search."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from polyplink.associate import cosine, paper_grid, search
from polyplink.associate.similarity import Reals, visual
from polyplink.bench.harness import Call, Work
from polyplink.core._torchvision import heal_torchvision
from polyplink.data.tables import DETECTIONS, check
from polyplink.evaluate import (
    Evaluation,
    EvaluationSettings,
    Reid,
    Samples,
    TrackletBoxes,
    draw_weights,
    evaluate_embeddings,
    reidentify,
    resample_reid,
    retrieve,
)
from polyplink.evaluate.counting import count_partitions, partitions
from polyplink.evaluate.hota import TrackingCounts, score_tracks, tracking_figures
from polyplink.evaluate.retrieval import retrieval_measures
from polyplink.evaluate.samples import BoxTracks, Ints
from polyplink.evaluate.tracking import TrackingTruth, true_and_found
from polyplink.tracklets import build_tracklets

Row = tuple[str, int, float, float, float, float, str]  # procedure, frame, x, y, w, h, polyp
Described = tuple[str, str, int, int, int]  # procedure, polyp, first and last frame, boxes

BOXES, POLYPS, PROCEDURES = 351_264, 132, 60  # of REAL-Colon
VIEW = 130  # boxes between two breaks, on average


def synthetic_detections(size: int, seed: int = 0) -> pl.DataFrame:
    """Boxes that drift, with gaps in time and jumps in place, sorted by procedure and frame.

    Args:
        size: Boxes; polyps and procedures shrink with it, so that views stay as long.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    polyps = max(1, round(POLYPS * size / BOXES))
    procedures = max(1, round(PROCEDURES * size / BOXES))
    polyp = np.sort(rng.integers(0, polyps, size))
    begin = np.searchsorted(polyp, polyp)
    gap = rng.random(size) < 1 / VIEW
    frame = np.arange(size) - begin + np.cumsum(gap * 50) - np.cumsum(gap * 50)[begin]
    jump = np.where(rng.random(size) < 1 / VIEW, 1, 0) * 400
    place = (np.cumsum(rng.normal(0, 2, size) + jump) % 1500).astype(np.float32)
    table = pl.DataFrame(
        {
            "procedure_id": [f"{k % procedures:03d}" for k in polyp],
            "frame": frame,
            "x": place,
            "y": place * 0.5,
            "w": rng.uniform(90, 110, size),
            "h": rng.uniform(90, 110, size),
            "polyp_id": [f"{k % procedures:03d}_{k}" for k in polyp],
            "image": [f"{k:06d}.jpg" for k in frame],
        }
    )
    return check(table, DETECTIONS, "detections").sort("procedure_id", "frame")


def naive_tracklets(rows: Sequence[Row]) -> list[Described]:
    """The rival: for every polyp, scan all boxes for its own, then walk them."""
    found = []
    for polyp in {row[6] for row in rows}:
        own = sorted((row for row in rows if row[6] == polyp), key=lambda row: row[1])
        first = previous = own[0]
        n = 1
        for row in own[1:]:
            if row[1] - previous[1] == 1 and _iou(previous, row) >= 0.1:
                n += 1
            else:
                found.append((first[0], polyp, first[1], previous[1], n))
                first, n = row, 1
            previous = row
        found.append((first[0], polyp, first[1], previous[1], n))
    return found


def _iou(a: Row, b: Row) -> float:
    width = min(a[2] + a[4], b[2] + b[4]) - max(a[2], b[2])
    height = min(a[3] + a[5], b[3] + b[5]) - max(a[3], b[3])
    shared = max(width, 0.0) * max(height, 0.0)
    return shared / (a[4] * a[5] + b[4] * b[5] - shared)


def tracklets(size: int, device: torch.device, folder: Path) -> Work:
    """`build_tracklets` of `size` boxes; `equal` is the same tracklets.

    The rival works as the papers' program does: one polyp after another, each by a scan of all
    boxes. It starts from a list of rows, as that program holds them.
    """
    table = synthetic_detections(size)
    rows = table.select("procedure_id", "frame", "x", "y", "w", "h", "polyp_id").rows()

    def equal(ours: tuple[Any, pl.DataFrame], theirs: list[Described]) -> bool:
        columns = ("procedure_id", "polyp_id", "first_frame", "last_frame", "n")
        return sorted(ours[1].select(columns).rows()) == sorted(theirs)

    return Work(lambda: build_tracklets(table), lambda: naive_tracklets(rows), equal)


TEST_PROCEDURES = 19  # of the evaluation part of REAL-Colon
TEST_TRACKLETS = 736
RECOMPUTED = 4  # resamples that the rival of the bootstrap computes
CLOSE = {"retrieval": 1e-6, "reid": 1e-5, "bootstrap": 1e-3, "tracking": 1e-6}
"""How far figures may differ: torchmetrics sums and integrates in float32, the bootstrap bins."""


def synthetic_vectors(size: int, *, noise: float = 3.0) -> tuple[Reals, Samples]:
    """Vectors (n, 256) about the centres of their polyps, 12 for a polyp, and whose they are.

    Args:
        size: Tracklets n, of 19 procedures.
        noise: Standard deviation about a centre; that of the centres is 1.
    """
    rng = np.random.default_rng(0)
    polyps = max(size // 12, 2)
    polyp = rng.integers(0, polyps, size)
    vectors = rng.normal(size=(polyps, 256))[polyp] + noise * rng.normal(size=(size, 256))
    names = [f"{p % TEST_PROCEDURES:02d}-{p}" for p in polyp]
    ids, procedures = [f"t{i}" for i in range(size)], [name[:2] for name in names]
    return vectors, Samples.of(ids, procedures, names, np.zeros(size))


def torchmetrics_retrieval(vectors: Reals, samples: Samples) -> list[float]:
    """The rival: mAP, HR@1 and HR@5 of torchmetrics, every query against all others."""
    from torchmetrics.retrieval import (  # noqa: PLC0415  an extra, and heavy
        RetrievalHitRate,
        RetrievalMAP,
    )

    n = len(vectors)
    others = ~np.eye(n, dtype=bool)
    # Lifted above 0: torchmetrics leaves out matches whose score is 0 or less.
    scores = torch.from_numpy(cosine(vectors)[others] + 2.0)
    match = torch.from_numpy((samples.polyp[:, None] == samples.polyp[None, :])[others])
    query = torch.arange(n).repeat_interleave(n - 1)
    metrics = [
        RetrievalMAP(empty_target_action="skip"),
        RetrievalHitRate(empty_target_action="skip", top_k=1),
        RetrievalHitRate(empty_target_action="skip", top_k=5),
    ]
    return [float(metric(scores, match, indexes=query)) for metric in metrics]


def retrieval(size: int, device: torch.device, folder: Path) -> Work:
    """What `polyplink evaluate --task retrieval` does with the vectors of `size` tracklets.

    Ours is every figure of retrieval (exact, as published, without the query's own procedure)
    with its interval, and the table of queries; the rival's are mAP, HR@1 and HR@5 alone, which
    `equal` compares to 1e-6.
    """
    vectors, samples = synthetic_vectors(size)
    settings = EvaluationSettings(tasks=("retrieval",), without_own=True)

    def equal(ours: Evaluation, theirs: list[float]) -> bool:
        figures = ours.encoders["ours"].figures
        found = np.array([figures[name].value for name in ("mAP", "HR@1", "HR@5")], np.float64)
        return bool(np.allclose(found, theirs, rtol=0, atol=CLOSE["retrieval"]))

    heal_torchvision()
    torchmetrics_retrieval(*synthetic_vectors(32))  # imports
    return Work(
        lambda: evaluate_embeddings({"ours": vectors}, samples, settings),
        lambda: torchmetrics_retrieval(vectors, samples),
        equal,
    )


def torchmetrics_reid(vectors: Reals, samples: Samples) -> list[float]:
    """The rival: AUROC and average precision of torchmetrics over all pairs i < j."""
    from torchmetrics.functional.classification import (  # noqa: PLC0415  an extra, and heavy
        binary_auroc,
        binary_average_precision,
    )

    pairs = np.triu_indices(len(vectors), k=1)
    # To [0, 1], or torchmetrics would take them for logits and apply a sigmoid.
    scores = torch.from_numpy((cosine(vectors)[pairs] + 1.0) / 2.0)
    same = torch.from_numpy(samples.polyp[pairs[0]] == samples.polyp[pairs[1]]).long()
    return [float(binary_auroc(scores, same)), float(binary_average_precision(scores, same))]


def reid(size: int, device: torch.device, folder: Path) -> Work:
    """`reidentify` from the vectors of `size` tracklets: AUROC, AUPR, counts of the bootstrap.

    The rival makes no counts; `equal` is both areas to 1e-5.
    """
    vectors, samples = synthetic_vectors(size)

    def equal(ours: Reid, theirs: list[float]) -> bool:
        found = np.array([ours.auroc, ours.aupr], dtype=np.float64)  # NaN where undefined
        return bool(np.allclose(found, theirs, rtol=0, atol=CLOSE["reid"]))

    heal_torchvision()
    torchmetrics_reid(*synthetic_vectors(32))  # imports
    return Work(
        lambda: reidentify(vectors, samples), lambda: torchmetrics_reid(vectors, samples), equal
    )


def recomputed(vectors: Reals, samples: Samples, weights: np.ndarray) -> np.ndarray:
    """The rival: mAP, AUROC and AUPR (3, r) of every resample from scratch.

    Every pair and query of a resample is weighed by how often it was drawn; scikit-learn sorts all
    pairs again.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415  slow

    i, j = np.triu_indices(len(vectors), k=1)
    scores, same = cosine(vectors)[i, j], samples.polyp[i] == samples.polyp[j]
    a, b = samples.procedure[i], samples.procedure[j]
    found = []
    for drawn in weights:
        again = retrieve(vectors, samples)
        times = drawn[samples.procedure][again.valid]
        weight = drawn[a] * np.where(a == b, 1, drawn[b])
        found.append(
            (
                (again.ap[again.valid] * times).sum() / times.sum(),
                roc_auc_score(same, scores, sample_weight=weight),
                average_precision_score(same, scores, sample_weight=weight),
            )
        )
    return np.array(found).T


def bootstrap(
    size: int, device: torch.device, folder: Path, tracklets: int = TEST_TRACKLETS
) -> Work:
    """mAP, AUROC and AUPR in `size` resamples of 19 procedures, from stored counts.

    The rival recomputes 4 resamples, which `equal` compares to 0.001, because areas are computed
    from bins.
    """
    vectors, samples = synthetic_vectors(tracklets, noise=2.0)
    found, counts = retrieve(vectors, samples), reidentify(vectors, samples).counts
    if counts is None:
        raise TypeError("no pair of either kind")  # synthetic tracklets have both

    def resampled() -> list[np.ndarray]:
        weights = draw_weights(len(samples.procedures), resamples=size)
        mean_ap = retrieval_measures(found, samples, weights)["mAP"].resampled
        return [mean_ap, *resample_reid(counts, weights)]

    first = draw_weights(len(samples.procedures), resamples=size)[:RECOMPUTED]

    def equal(ours: list[np.ndarray], theirs: np.ndarray) -> bool:
        same = [figure[: len(first)] for figure in ours]
        return bool(np.allclose(same, theirs, rtol=0, atol=CLOSE["bootstrap"]))

    rescored = size / len(first)
    return Work(resampled, lambda: recomputed(vectors, samples, first), equal, scale=rescored)


LONG = 60  # boxes of a tracklet


def synthetic_tracks(frames: int, *, touching: bool) -> tuple[TrackletBoxes, Ints]:
    """Tracklets of a procedure, one after the other and some of them two at a time.

    Args:
        frames: Of the procedure.
        touching: Whether the boxes of one frame overlap.

    Returns:
        The tracklets (n of them) and their clusters (n,), some of them wrong.
    """
    rng = np.random.default_rng(0)
    n = max(frames // LONG, 2)
    start = np.arange(n) * LONG
    start[1::4] -= LONG // 2  # every fourth comes while another is there
    polyp = np.arange(n) * max(n // 40, 3) // n
    polyp[1::4] += polyp.max() + 1
    places = 100.0 + rng.integers(0, 9, (n, LONG, 2))
    places[1::4, :, 0] += 20.0 if touching else 400.0
    labels = np.where(rng.random(n) < 0.2, rng.integers(0, n, n), polyp)
    return tracklet_boxes(polyp, start, places), labels


def tracklet_boxes(polyp: Ints, start: Ints, places: np.ndarray) -> TrackletBoxes:
    """Boxes of 60 x 60 pixels of n tracklets, given first frames (n,) and corners (n, 60, 2)."""
    frame = (start[:, None] + np.arange(LONG)).ravel()
    box = np.concatenate([places, np.full(places.shape, 60.0)], axis=2)  # n 60 4
    return TrackletBoxes(polyp, LONG * np.arange(len(polyp) + 1), frame, box.reshape(-1, 4))


def trackeval_figures(*scenes: tuple[BoxTracks, BoxTracks]) -> dict[str, float]:
    """The rival: TrackEval's similarities and metrics, combined over scenes (true, found)."""
    from trackeval.metrics import CLEAR, HOTA, Identity  # noqa: PLC0415  an extra, and slow

    quiet = {"PRINT_CONFIG": False}
    found: dict[str, float] = {}
    data = [_trackeval_data(*scene) for scene in scenes]
    for metric in (HOTA(), Identity(quiet), CLEAR(quiet)):
        each = {str(i): metric.eval_sequence(one) for i, one in enumerate(data)}
        combined = each["0"] if len(each) == 1 else metric.combine_sequences(each)
        found |= {name: float(np.mean(value)) for name, value in combined.items()}
    return found


def _trackeval_data(true: BoxTracks, found: BoxTracks) -> dict[str, Any]:
    """A scene in the format that TrackEval's metrics read."""
    from trackeval.datasets import MotChallenge2DBox  # noqa: PLC0415  an extra, and slow

    frames = np.arange(1 + max([0, *true.frame[-1:].tolist(), *found.frame[-1:].tolist()]))
    data: dict[str, Any] = {"num_timesteps": frames.size}
    boxes = []
    for side, one in (("gt", true), ("tracker", found)):
        bounds = np.searchsorted(one.frame, np.append(frames, frames.size))
        cuts = [slice(a, b) for a, b in pairwise(bounds)]
        data[f"{side}_ids"] = [one.track[cut] for cut in cuts]
        data[f"num_{side}_ids"], data[f"num_{side}_dets"] = one.tracks, one.frame.size
        boxes.append([one.box[cut] for cut in cuts])
    iou = MotChallenge2DBox._calculate_box_ious  # what its own reader calls
    data["similarity_scores"] = [iou(a, b) for a, b in zip(*boxes, strict=True)]
    return data


def agree(ours: TrackingCounts, theirs: dict[str, float]) -> bool:
    """Whether all tracking figures are equal to 1e-6."""
    return all(
        abs(float(value) - theirs[name]) < CLOSE["tracking"]
        for name, value in tracking_figures(ours).items()
    )


def _tracking(frames: int, *, touching: bool) -> Work:
    boxes, labels = synthetic_tracks(frames, touching=touching)
    truth = TrackingTruth.of("bench", boxes)
    scene = true_and_found(boxes, truth.score(labels[None]).track[0])
    score_tracks(*scene)  # compiles

    def equal(ours: TrackingCounts, theirs: dict[str, float]) -> bool:
        return truth.table is not touching and agree(ours, theirs)

    return Work(
        lambda: TrackingTruth.of("bench", boxes).score(labels[None]).counts.take(0),
        lambda: trackeval_figures(scene),
        equal,
    )


def tracking(size: int, device: torch.device, folder: Path) -> Work:
    """HOTA, identity and CLEAR of `size` frames by the table form: boxes do not overlap.

    The check that the table form applies is included in ours. `equal` is all figures to 1e-6.
    """
    return _tracking(size, touching=False)


def tracking_general(size: int, device: torch.device, folder: Path) -> Work:
    """As `tracking`, by the general form: boxes overlap."""
    return _tracking(size, touching=True)


SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 20, 24, 30, 42, 84, 480)  # of 19 procedures
GRID = paper_grid().only(["temporal_ap"])
EVERY = 179  # the rival runs one setting in 179, which takes each preference equally often

Procedure = tuple[Reals, Reals, list[int]]  # visual similarity (n, n), positions (n,), polyps (n,)


def synthetic_procedure(size: int) -> Procedure:
    """A procedure whose polyps appear around different times and differ only in part."""
    rng = np.random.default_rng(size)
    polyps = max(size // 12, 2)
    polyp = rng.integers(0, polyps, size)
    times = rng.random(polyps)[polyp] + rng.normal(0, 0.03, size)
    order = np.argsort(times)
    centres = rng.normal(size=(polyps, 32))
    vectors = centres[polyp] + 0.8 * rng.normal(size=(size, 32))
    positions = (times - times.min()) / max(float(np.ptp(times)), 1e-9)
    return visual(vectors[order]), positions[order], polyp[order].tolist()


def sequential_boxes(polyps: list[int]) -> TrackletBoxes:
    """Boxes of tracklets: polyps are apart, and one appears before the last one has gone."""
    polyp = np.asarray(polyps)
    start = LONG * np.arange(len(polyp))
    start[1:] -= LONG // 2 * (polyp[1:] != polyp[:-1])
    places = np.zeros((len(polyp), LONG, 2))
    places[..., 0] = 100.0 * polyp[:, None]
    return tracklet_boxes(polyp, start, places)


def searched(
    procedures: list[Procedure], threads: int, grid: Any = GRID
) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Ours: figures (s,) of every setting, and labels (s, n) of every procedure under it."""
    rates, tracks, kept = [], [], []
    for V, positions, polyps in procedures:
        labels = search(V, positions, grid, threads=threads)["temporal_ap"].labels
        parts = partitions(labels)
        rates.append(count_partitions(parts, polyps).rates["fr"])
        truth = TrackingTruth.of("bench", sequential_boxes(polyps))
        tracks.append(truth.score(parts.labels).counts.take(parts.of))
        kept.append(labels)
    figures = tracking_figures(TrackingCounts.total(tracks))
    return {"FR": np.mean(rates, axis=0), **figures}, kept


def one_by_one(V: Reals, positions: Reals, rows: range, grid: Any = GRID) -> list[Any]:
    """The rival: scikit-learn's labels under some settings, None where it did not converge."""
    from sklearn.cluster import AffinityPropagation  # noqa: PLC0415  slow
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    found: list[Any] = []
    every = grid.temporal_ap()
    for setting in [every[row] for row in rows]:
        model = AffinityPropagation(
            damping=0.9,
            max_iter=500,
            convergence_iter=50,
            preference=setting.preference,
            affinity="precomputed",
            random_state=42,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            labels = model.fit(setting.similarity(V, positions)).labels_
        failed = any(issubclass(w.category, ConvergenceWarning) for w in caught)
        found.append(None if failed else labels)
    return found


def same_partitions(ours: np.ndarray, theirs: list[Any]) -> bool:
    """Whether labels (s, n) are scikit-learn's partitions, wherever that converged."""
    return all(
        bool(((a[:, None] == a[None, :]) == (b[:, None] == b[None, :])).all())
        for a, b in zip(ours, theirs, strict=True)
        if b is not None
    )


def tracked_alone(procedures: list[Procedure], labels: list[np.ndarray]) -> dict[str, float]:
    """Tracking figures of one setting alone, from the labels (n,) of every procedure."""
    scores = [
        TrackingTruth.of("bench", sequential_boxes(polyps)).score(own[None]).counts.take(0)
        for (_, _, polyps), own in zip(procedures, labels, strict=True)
    ]
    return {k: float(v) for k, v in tracking_figures(TrackingCounts.total(scores)).items()}


def sweep(
    size: int, device: torch.device, folder: Path, grid: Any = GRID, every: int = EVERY
) -> Work:
    """The paper's grid on 19 procedures, the largest of `size` tracklets, with all cores.

    Ours clusters, counts and tracks under every setting; the rival only clusters, under one
    setting in 179. `equal` compares these: partitions wherever scikit-learn converges, and the
    tracking figures with those of each setting computed alone, to the bit. The rate is settings
    of all procedures a second; growth is that of the largest procedure under 41 preferences.
    """
    procedures = [synthetic_procedure(max(3, round(n * size / SIZES[-1]))) for n in SIZES]
    cores, settings = os.cpu_count() or 1, len(grid.temporal_ap())
    rows = range(0, settings, every)

    def equal(ours: tuple[dict[str, np.ndarray], list[np.ndarray]], theirs: list[Any]) -> bool:
        figures, labels = ours
        return all(
            same_partitions(own[list(rows)], other)
            for own, other in zip(labels, theirs, strict=True)
        ) and all(
            value == figures[name][row]
            for row in rows
            for name, value in tracked_alone(procedures, [own[row] for own in labels]).items()
        )

    def largest(n: int) -> Call:
        V, positions, _ = synthetic_procedure(n)
        part = replace(grid, alphas=grid.alphas[:1], gammas=grid.gammas[-1:])
        return lambda: search(V, positions, part)

    searched(procedures[:1], cores, grid)  # compiles
    one_by_one(*procedures[0][:2], rows, grid)  # imports
    return Work(
        lambda: searched(procedures, cores, grid),
        lambda: [one_by_one(V, positions, rows, grid) for V, positions, _ in procedures],
        equal,
        scale=settings / len(rows),
        at=largest,
        more=lambda output, seconds: {"rate": settings / seconds},
    )
