"""Benchmarks on boxes and vectors: tracklets, tracks, links, retrieval, reid, tracking, search."""

import os
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import torch

from polyplink.associate.clusterers import TemporalAP
from polyplink.associate.grid_search import Grid, find_grid, search
from polyplink.associate.links import LinkModel, Views, term_names
from polyplink.associate.partition import PRICES, partition
from polyplink.associate.similarity import cosine, visual
from polyplink.core.arrays import Floats, Ints
from polyplink.core.lazy_torch import heal_torchvision
from polyplink.data.tables import DETECTIONS, check
from polyplink.evaluate.counting import Partitions, count_procedure, partitions
from polyplink.evaluate.evaluation import Evaluation, EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.hota import TrackingCounts, score_tracks, tracking_figures
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.reid import Reid, reidentify, resample_reid
from polyplink.evaluate.retrieval import retrieval_measures, retrieve
from polyplink.evaluate.samples import BoxTracks, Samples, TrackletBoxes
from polyplink.evaluate.tracking import TrackingTruth, true_and_detected
from polyplink.tracklets.box_runs import build_tracklets
from polyplink.tracklets.tracks import Tracker, tracker_input
from polyplink_lab.bench.harness import Call, Work

Row = tuple[str, int, float, float, float, float, str]  # procedure, frame, x, y, w, h, polyp
Described = tuple[str, str, int, int, int]  # procedure, polyp, first and last frame, boxes

BOXES, POLYPS, PROCEDURES = 351_264, 132, 60  # of REAL-Colon
VIEW = 130  # mean number of boxes between two breaks


def synthetic_detections(size: int) -> pl.DataFrame:
    """Drifting boxes with gaps in time and jumps in position, sorted by procedure and frame.

    Args:
        size: Number of boxes. The numbers of polyps and procedures are proportional to it, so that
            the length of views does not change.
    """
    rng = np.random.default_rng(0)
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


def tracklets(size: int, device: torch.device, folder: Path) -> Work:
    """`build_tracklets` of `size` boxes; `equal` is whether the tracklets are the same.

    As in the papers' program, the rival searches all boxes for those of each polyp, then iterates
    over them. It starts from a list of rows, like that program.
    """
    table = synthetic_detections(size)
    rows = table.select("procedure_id", "frame", "x", "y", "w", "h", "polyp_id").rows()

    def iou(a: Row, b: Row) -> float:
        width = min(a[2] + a[4], b[2] + b[4]) - max(a[2], b[2])
        height = min(a[3] + a[5], b[3] + b[5]) - max(a[3], b[3])
        shared = max(width, 0.0) * max(height, 0.0)
        return shared / (a[4] * a[5] + b[4] * b[5] - shared)

    def rival() -> list[Described]:
        described = []
        for polyp in {row[6] for row in rows}:
            polyp_rows = sorted((row for row in rows if row[6] == polyp), key=lambda row: row[1])
            starts = [
                k
                for k, row in enumerate(polyp_rows)
                if not k or row[1] - polyp_rows[k - 1][1] != 1 or iou(polyp_rows[k - 1], row) < 0.1
            ]
            for start, stop in pairwise([*starts, len(polyp_rows)]):
                first, last = polyp_rows[start], polyp_rows[stop - 1]
                described.append((first[0], polyp, first[1], last[1], stop - start))
        return described

    def equal(ours: tuple[Any, pl.DataFrame], theirs: list[Described]) -> bool:
        columns = ("procedure_id", "polyp_id", "first_frame", "last_frame", "n")
        return sorted(ours[1].select(columns).rows()) == sorted(theirs)

    return Work(lambda: build_tracklets(table), rival, equal)


def tracks(size: int, device: torch.device, folder: Path) -> Work:
    """Linking `size` boxes of unknown polyps to tracks, one call per procedure.

    The rival is the same tracker called frame by frame, as for a running procedure. `equal` is
    whether every box has the same track.
    """
    scores = np.random.default_rng(0).uniform(0.05, 1.0, size)
    table = synthetic_detections(size).with_columns(score=pl.Series(scores, dtype=pl.Float32))
    procedures = [tracker_input(part) for part in table.partition_by("procedure_id")]

    def ours() -> Ints:
        return np.concatenate([Tracker(25.0).update(*procedure) for procedure in procedures])

    def rival() -> Ints:
        tracks = []
        for procedure in procedures:
            tracker, (frames, boxes, box_scores) = Tracker(25.0), procedure
            starts = np.flatnonzero(np.diff(frames, prepend=-1))
            for start, stop in pairwise([*starts.tolist(), len(frames)]):
                part = slice(start, stop)
                tracks.append(tracker.update(frames[part], boxes[part], box_scores[part]))
        return np.concatenate(tracks)

    return Work(ours, rival, np.array_equal)


TEST_PROCEDURES = 19  # of the evaluation part of REAL-Colon
TEST_TRACKLETS = 736
RECOMPUTED = 4  # resamples computed by the rival of the bootstrap


def synthetic_vectors(size: int, *, noise: float = 3.0) -> tuple[Floats, Samples]:
    """Vectors (n, 256) scattered about the centres of their polyps, and their samples.

    Args:
        size: Number n of tracklets, 12 per polyp on average, in 19 procedures.
        noise: Standard deviation about a centre; that of the centres is 1.
    """
    rng = np.random.default_rng(0)
    polyps = max(size // 12, 2)
    polyp = rng.integers(0, polyps, size)
    vectors = rng.normal(size=(polyps, 256))[polyp] + noise * rng.normal(size=(size, 256))
    names = [f"{p % TEST_PROCEDURES:02d}-{p}" for p in polyp]
    ids, procedures = [f"t{i}" for i in range(size)], [name[:2] for name in names]
    return vectors, Samples.of(ids, procedures, names, np.zeros(size))


def links(size: int, device: torch.device, folder: Path) -> Work:
    """Linking one procedure of `size` tracklets: probabilities, and partitions under 33 prices.

    `evaluate` and the interval of a count need these. The rival computes a partition per call;
    `equal` is whether the polyps are the same.
    """
    vectors, _ = synthetic_vectors(size)
    start = np.cumsum(np.random.default_rng(0).exponential(4.0, size))
    views = Views(vectors, start, start + 1.0)
    weights = dict.fromkeys(term_names(), 0.0) | {"cosine": 12.0, "log gap": -0.5}
    model = LinkModel(-4.0, weights, 1, 1)

    def ours() -> Ints:
        return partition(model.probability(views), PRICES).astype(np.int64)

    def rival() -> Ints:
        P = model.probability(views)
        return np.concatenate([partition(P, [price]) for price in PRICES]).astype(np.int64)

    return Work(ours, rival, np.array_equal)


def retrieval(size: int, device: torch.device, folder: Path) -> Work:
    """The work of `polyplink evaluate --task retrieval` on the vectors of `size` tracklets.

    Ours computes every figure of retrieval (exact, as published, without the query's procedure)
    with intervals, and the table of queries; the rival only computes mAP, HR@1 and HR@5, which
    `equal` compares to 1e-6.
    """
    heal_torchvision()
    from torchmetrics.retrieval import (  # noqa: PLC0415  an extra, and heavy
        RetrievalHitRate,
        RetrievalMAP,
    )

    vectors, samples = synthetic_vectors(size)
    settings = EvaluationSettings(tasks=("retrieval",), without_own=True)

    def rival() -> list[float]:
        off_diagonal = ~np.eye(size, dtype=bool)
        # Shifted above 0, because torchmetrics ignores matches with scores of 0 or less.
        scores = torch.from_numpy(cosine(vectors)[off_diagonal] + 2.0)
        match = torch.from_numpy((samples.polyp[:, None] == samples.polyp[None, :])[off_diagonal])
        query = torch.arange(size).repeat_interleave(size - 1)
        metrics = [
            RetrievalMAP(empty_target_action="skip"),
            RetrievalHitRate(empty_target_action="skip", top_k=1),
            RetrievalHitRate(empty_target_action="skip", top_k=5),
        ]
        return [float(metric(scores, match, indexes=query)) for metric in metrics]

    def equal(ours: Evaluation, theirs: list[float]) -> bool:
        figures = ours.encoders["ours"].figures
        values = np.array([figures[name].value for name in ("mAP", "HR@1", "HR@5")], np.float64)
        return bool(np.allclose(values, theirs, rtol=0, atol=1e-6))

    return Work(lambda: evaluate_embeddings({"ours": vectors}, samples, settings)[0], rival, equal)


def nearest_views(size: int, device: torch.device, folder: Path) -> Work:
    """Search of an index: the 12 nearest of `size` vectors of 256 numbers, for 8 queries.

    Ours reads the vectors in 8 bits and compares candidates in double precision; the rival computes
    products in float32 and sorts the largest. `equal` is whether both return the same rows.
    """
    from polyplink.scale.exact import encode_rows, nearest  # noqa: PLC0415  compiled for this case alone

    rng, k = np.random.default_rng(0), 12
    unit = rng.standard_normal((size, 256), dtype=np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    stored, queries = encode_rows(unit), unit[:: max(size // 8, 1)][:8]

    def product(query: np.ndarray) -> np.ndarray:
        cosines = unit @ query
        best = np.argpartition(-cosines, k - 1)[:k]
        return np.asarray(best[np.argsort(-cosines[best])])

    def equal(ours: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
        return all(map(np.array_equal, ours, theirs))

    exact = [
        query.astype(np.float64) / np.linalg.norm(query.astype(np.float64)) for query in queries
    ]
    return Work(
        lambda: [nearest(query, unit, stored, k)[0] for query in exact],
        lambda: [product(query) for query in queries],
        equal,
    )


def reid(size: int, device: torch.device, folder: Path) -> Work:
    """`reidentify` on the vectors of `size` tracklets: AUROC, AUPR, counts for the bootstrap.

    The rival computes no counts; `equal` compares both areas, over all pairs i < j, to 1e-5,
    because torchmetrics integrates in float32.
    """
    heal_torchvision()
    from torchmetrics.functional.classification import (  # noqa: PLC0415  an extra, and heavy
        binary_auroc,
        binary_average_precision,
    )

    vectors, samples = synthetic_vectors(size)

    def rival() -> list[float]:
        i, j = np.triu_indices(size, k=1)
        # Scaled to [0, 1]; otherwise torchmetrics would apply a sigmoid, as to logits.
        scores = torch.from_numpy((cosine(vectors)[i, j] + 1.0) / 2.0)
        one_polyp = torch.from_numpy(samples.polyp[i] == samples.polyp[j]).long()
        return [float(area(scores, one_polyp)) for area in (binary_auroc, binary_average_precision)]

    def equal(ours: Reid, theirs: list[float]) -> bool:
        values = np.array([ours.auroc, ours.aupr], dtype=np.float64)  # NaN where undefined
        return bool(np.allclose(values, theirs, rtol=0, atol=1e-5))

    return Work(lambda: reidentify(vectors, samples), rival, equal)


def bootstrap(
    size: int, device: torch.device, folder: Path, tracklets: int = TEST_TRACKLETS
) -> Work:
    """mAP, AUROC and AUPR in `size` resamples of 19 procedures, from stored counts.

    The rival recomputes 4 resamples from scratch: every pair and query is weighted by the number of
    times it was drawn, and scikit-learn sorts all pairs again. `equal` compares to 0.001, because
    our areas are computed from bins.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415  slow

    vectors, samples = synthetic_vectors(tracklets, noise=2.0)
    retrieved, counts = retrieve(vectors, samples), reidentify(vectors, samples).counts
    if counts is None:
        raise TypeError("no pair of either kind")  # synthetic tracklets have both

    def resampled() -> list[np.ndarray]:
        weights = draw_weights(len(samples.procedures), resamples=size)
        mean_ap = retrieval_measures(retrieved, samples, weights)["mAP"].resampled
        return [mean_ap, *resample_reid(counts, weights)]

    first = draw_weights(len(samples.procedures), resamples=size)[:RECOMPUTED]

    def recomputed() -> np.ndarray:
        i, j = np.triu_indices(len(vectors), k=1)
        scores, one_polyp = cosine(vectors)[i, j], samples.polyp[i] == samples.polyp[j]
        a, b = samples.procedure[i], samples.procedure[j]
        figures = []
        for drawn in first:
            ranking = retrieve(vectors, samples)
            times = drawn[samples.procedure][ranking.valid]
            weight = drawn[a] * np.where(a == b, 1, drawn[b])
            mean_ap = (ranking.ap[ranking.valid] * times).sum() / times.sum()
            areas = (roc_auc_score, average_precision_score)
            figures.append([mean_ap, *(f(one_polyp, scores, sample_weight=weight) for f in areas)])
        return np.array(figures).T  # 3 r

    def equal(ours: list[np.ndarray], theirs: np.ndarray) -> bool:
        first_draws = [figure[: len(first)] for figure in ours]
        return bool(np.allclose(first_draws, theirs, rtol=0, atol=1e-3))

    return Work(resampled, recomputed, equal, scale=size / len(first))


LONG = 60  # boxes of a tracklet


def tracklet_boxes(polyp: Ints, start: Ints, places: np.ndarray) -> TrackletBoxes:
    """Boxes of 60 x 60 pixels of n tracklets, given first frames (n,) and corners (n, 60, 2)."""
    frame = (start[:, None] + np.arange(LONG)).ravel()
    box = np.concatenate([places, np.full(places.shape, 60.0)], axis=2)  # n 60 4
    return TrackletBoxes(polyp, LONG * np.arange(len(polyp) + 1), frame, box.reshape(-1, 4))


def trackeval_figures(*scenes: tuple[BoxTracks, BoxTracks]) -> dict[str, float]:
    """The rival: TrackEval's similarities and metrics, combined over scenes (true, detected)."""
    from trackeval.datasets import MotChallenge2DBox  # noqa: PLC0415  an extra, and slow
    from trackeval.metrics import CLEAR, HOTA, Identity  # noqa: PLC0415

    data = []
    for scene in scenes:  # in the format that TrackEval's metrics read
        last = [tracks.frame[-1] for tracks in scene if tracks.frame.size]
        frames = np.arange(1 + max(last, default=0))
        sequence: dict[str, Any] = {"num_timesteps": frames.size}
        boxes = []
        for side, tracks in zip(("gt", "tracker"), scene, strict=True):
            bounds = np.searchsorted(tracks.frame, np.append(frames, frames.size))
            cuts = [slice(a, b) for a, b in pairwise(bounds)]
            sequence[f"{side}_ids"] = [tracks.track[cut] for cut in cuts]
            sequence[f"num_{side}_ids"], sequence[f"num_{side}_dets"] = (
                tracks.tracks,
                tracks.frame.size,
            )
            boxes.append([tracks.box[cut] for cut in cuts])
        iou = MotChallenge2DBox._calculate_box_ious  # as in TrackEval's reader
        data.append(
            sequence | {"similarity_scores": [iou(a, b) for a, b in zip(*boxes, strict=True)]}
        )
    quiet = {"PRINT_CONFIG": False}
    figures: dict[str, float] = {}
    for metric in (HOTA(), Identity(quiet), CLEAR(quiet)):
        by_sequence = {str(i): metric.eval_sequence(entry) for i, entry in enumerate(data)}
        combined = (
            by_sequence["0"] if len(by_sequence) == 1 else metric.combine_sequences(by_sequence)
        )
        figures |= {name: float(np.mean(value)) for name, value in combined.items()}
    return figures


def agree(ours: TrackingCounts, theirs: dict[str, float]) -> bool:
    """Whether all tracking figures are equal to 1e-6."""
    return all(
        abs(float(value) - theirs[name]) < 1e-6 for name, value in tracking_figures(ours).items()
    )


def tracking(size: int, device: torch.device, folder: Path, *, touching: bool = False) -> Work:
    """HOTA, identity and CLEAR of `size` frames; `equal` compares all figures to 1e-6.

    Boxes do not overlap, so that ours uses the table form, including the check that it applies;
    with `touching` they do, and ours uses the general form.
    """
    # Consecutive tracklets of one procedure; every fourth overlaps another in time.
    rng = np.random.default_rng(0)
    n = max(size // LONG, 2)
    start = np.arange(n) * LONG
    start[1::4] -= LONG // 2
    polyp = np.arange(n) * max(n // 40, 3) // n
    polyp[1::4] += polyp.max() + 1
    places = 100.0 + rng.integers(0, 9, (n, LONG, 2))
    places[1::4, :, 0] += 20.0 if touching else 400.0
    labels = np.where(rng.random(n) < 0.2, rng.integers(0, n, n), polyp)  # some are wrong
    boxes = tracklet_boxes(polyp, start, places)
    truth = TrackingTruth.of("bench", boxes)
    scene = true_and_detected(boxes, truth.score(labels[None]).track[0])
    score_tracks(*scene)  # compiles

    def equal(ours: TrackingCounts, theirs: dict[str, float]) -> bool:
        return truth.table is not touching and agree(ours, theirs)

    return Work(
        lambda: TrackingTruth.of("bench", boxes).score(labels[None]).counts.take(0),
        lambda: trackeval_figures(scene),
        equal,
    )


SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 20, 24, 30, 42, 84, 480)  # of 19 procedures
GRID = find_grid("paper", ["temporal_ap"])
EVERY = 179  # the rival runs one setting in 179, in which each preference is equally frequent

Procedure = tuple[Floats, Floats, list[int]]  # visual similarity (n, n), positions, polyps (n,)


def synthetic_procedure(size: int) -> Procedure:
    """A procedure with polyps that appear at different times and look partly alike."""
    rng = np.random.default_rng(size)
    polyps = max(size // 12, 2)
    polyp = rng.integers(0, polyps, size)
    times = rng.random(polyps)[polyp] + rng.normal(0, 0.03, size)
    order = np.argsort(times)
    centres = rng.normal(size=(polyps, 32))
    vectors = centres[polyp] + 0.8 * rng.normal(size=(size, 32))
    positions = (times - times.min()) / max(float(np.ptp(times)), 1e-9)
    return visual(vectors[order]), positions[order], polyp[order].tolist()


def tracked(procedures: Sequence[Procedure], partitions_of: Sequence[Partitions]) -> dict[str, Any]:
    """Tracking figures (s,) over all procedures, for their partitions under s settings.

    Boxes of different polyps do not overlap, and polyps overlap in time.
    """
    scores = []
    for (_, _, polyps), parts in zip(procedures, partitions_of, strict=True):
        polyp = np.asarray(polyps)
        start = LONG * np.arange(len(polyp))
        start[1:] -= LONG // 2 * (polyp[1:] != polyp[:-1])
        places = np.zeros((len(polyp), LONG, 2))
        places[..., 0] = 100.0 * polyp[:, None]
        truth = TrackingTruth.of("bench", tracklet_boxes(polyp, start, places))
        scores.append(truth.score(parts.labels).counts.take(parts.row_of))
    return dict(tracking_figures(TrackingCounts.total(scores)))


def scikit_learn_labels(V: Floats, positions: Floats, setting: TemporalAP) -> np.ndarray | None:
    """Labels (n,) by scikit-learn's affinity propagation; None if it does not converge."""
    from sklearn.cluster import AffinityPropagation  # noqa: PLC0415  slow
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

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
        labels: np.ndarray = model.fit(setting.similarity(V, positions)).labels_
    failed = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return None if failed else labels


def sweep(
    size: int, device: torch.device, folder: Path, grid: Grid = GRID, every_nth: int = EVERY
) -> Work:
    """The paper's grid on 19 procedures, the largest with `size` tracklets, on all cores.

    Ours clusters, counts and tracks under every setting; the rival only clusters, under one
    setting in 179. `equal` compares these settings: the partitions if scikit-learn converges, and
    the tracking figures with those of each setting computed alone, bit by bit. The rate is settings
    per second for all procedures; growth is that of the largest procedure under 41 preferences.
    """
    procedures = [synthetic_procedure(max(3, round(n * size / SIZES[-1]))) for n in SIZES]
    cores, settings = os.cpu_count() or 1, cast(list[TemporalAP], grid["temporal_ap"])
    rows = range(0, len(settings), every_nth)

    def searched(group: Sequence[Procedure]) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """Figures (s,) of all settings, and labels (s, n) of every procedure."""
        labels = [
            search(V, positions, grid, threads=cores)["temporal_ap"].labels
            for V, positions, _ in group
        ]
        polyps = [names for _, _, names in group]
        counts = [
            count_procedure(*labels_and_names)
            for labels_and_names in zip(labels, polyps, strict=True)
        ]
        rates = np.mean([counted.rates["fr"] for counted in counts], axis=0)
        return {"FR": rates, **tracked(group, [counted.partitions for counted in counts])}, labels

    def one_by_one(group: Sequence[Procedure]) -> list[list[np.ndarray | None]]:
        """scikit-learn's labels under some settings, by procedure."""
        return [
            [scikit_learn_labels(V, positions, settings[row]) for row in rows]
            for V, positions, _ in group
        ]

    def equal(ours: tuple[dict[str, np.ndarray], list[np.ndarray]], theirs: list[Any]) -> bool:
        figures, labels = ours
        same_labels = all(
            bool(((a[:, None] == a[None, :]) == (b[:, None] == b[None, :])).all())
            for labels_of_ours, labels_of_theirs in zip(labels, theirs, strict=True)
            for a, b in zip(labels_of_ours[list(rows)], labels_of_theirs, strict=True)
            if b is not None
        )
        alone = [[partitions(label_rows[row : row + 1]) for label_rows in labels] for row in rows]
        return same_labels and all(
            float(value[0]) == figures[name][row]
            for row, parts in zip(rows, alone, strict=True)
            for name, value in tracked(procedures, parts).items()
        )

    def largest(n: int) -> Call:
        V, positions, _ = synthetic_procedure(n)
        first_alpha, last_gamma = settings[0].alpha, settings[-1].gamma
        part = [s for s in settings if (s.alpha, s.gamma) == (first_alpha, last_gamma)]
        return lambda: search(V, positions, {"temporal_ap": part})

    searched(procedures[:1])  # compiles
    one_by_one(procedures[:1])  # imports
    return Work(
        lambda: searched(procedures),
        lambda: one_by_one(procedures),
        equal,
        scale=len(settings) / len(rows),
        at=largest,
        more=lambda output, seconds: {"rate": len(settings) / seconds},
    )
