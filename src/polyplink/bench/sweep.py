"""Searching the settings of temporal affinity propagation, against scikit-learn one by one.

Ours also counts and tracks under every setting; the rival clusters alone.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from polyplink.associate import paper_grid, search
from polyplink.associate.similarity import Reals, visual
from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.bench.tracking import LONG
from polyplink.evaluate import ProcedureCounts, TrackletBoxes
from polyplink.evaluate.counting import count_partitions, partitions
from polyplink.evaluate.hota import TrackingCounts, tracking_figures
from polyplink.evaluate.tracking import TrackingTruth

TRACKLETS = 480  # of the largest procedure
SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 20, 24, 30, 42, 84, 480)  # of 19 procedures
GRID = paper_grid().only(["temporal_ap"])
EVERY = 179  # of the grid's settings the rival gets one in so many: each preference equally often

Procedure = tuple[Reals, Reals, list[int]]


def sampled() -> list[int]:
    """Rows of the settings that the rival answers, evenly spread over the grid."""
    return list(range(0, len(GRID.temporal_ap()), EVERY))


def synthetic_procedure(size: int) -> Procedure:
    """Visual similarity (n, n), positions (n,) and polyps of a procedure.

    Views of a polyp lie about a time of its own, at irregular distances, and look alike in part.
    """
    rng = np.random.default_rng(size)
    polyps = max(size // 12, 2)
    polyp = rng.integers(0, polyps, size)
    times = rng.random(polyps)[polyp] + rng.normal(0, 0.03, size)
    order = np.argsort(times)
    centres = rng.normal(size=(polyps, 32))
    vectors = centres[polyp] + 0.8 * rng.normal(size=(size, 32))
    positions = (times - times.min()) / max(float(np.ptp(times)), 1e-9)
    return visual(vectors[order]), positions[order], polyp[order].tolist()


def procedures(largest: int) -> list[Procedure]:
    """19 procedures as they come, from 3 tracklets to the largest."""
    sizes = [max(3, round(size * largest / SIZES[-1])) for size in SIZES]
    return [synthetic_procedure(size) for size in sizes]


def labelled(V: Reals, positions: Reals, threads: int) -> np.ndarray:
    """Labels (s, n) of a procedure under every setting."""
    return search(V, positions, GRID, threads=threads)["temporal_ap"].labels


def boxes_of(polyps: list[int]) -> TrackletBoxes:
    """Boxes of a procedure's tracklets: polyps apart, another polyp is there before one goes."""
    n, polyp = len(polyps), np.asarray(polyps)
    start = LONG * np.arange(n)
    start[1:] -= LONG // 2 * (polyp[1:] != polyp[:-1])
    frame = (start[:, None] + np.arange(LONG)).ravel()
    box = np.tile([0.0, 0.0, 60.0, 60.0], (n * LONG, 1))
    box[:, 0] = 100.0 * np.repeat(polyp, LONG)
    return TrackletBoxes(polyp, LONG * np.arange(n + 1), frame, box)


def answered(labels: np.ndarray, polyps: list[int]) -> tuple[ProcedureCounts, TrackingCounts]:
    """Counts and tracks of a procedure under every setting, from its labels (s, n)."""
    cut = partitions(labels)
    tracked = TrackingTruth.of("bench", boxes_of(polyps)).score(cut.labels)
    return count_partitions(cut, polyps), tracked.counts.take(cut.of)


def ours(made: list[Procedure], threads: int) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Ours: counts and figures of all settings (s,); of the sampled ones also the labels (s, n)."""
    answers, kept = [], []
    for V, positions, polyps in made:
        labels = labelled(V, positions, threads)
        answers.append(answered(labels, polyps))
        kept.append(labels[sampled()])
    means = {"FR": np.mean([counts.fr for counts, _ in answers], axis=0)}
    tracked = TrackingCounts.total(tracks for _, tracks in answers)
    return means | tracking_figures(tracked), kept


def as_alone(made: list[Procedure], labels: list[np.ndarray], found: dict[str, np.ndarray]) -> bool:
    """Whether tracking figures (s,) are those of labels (s, n) scored alone, to the bit."""
    truths = [TrackingTruth.of("bench", boxes_of(polyps)) for _, _, polyps in made]
    every = [
        tracking_figures(
            TrackingCounts.total(
                t.score(own[[row]]).counts.take(0) for t, own in zip(truths, labels, strict=True)
            )
        )
        for row in range(len(labels[0]))
    ]
    return all(one[name] == found[name][row] for row, one in enumerate(every) for name in one)


def one_by_one(V: Reals, positions: Reals) -> list[np.ndarray | None]:
    """The rival: scikit-learn's labels under sampled settings, None where it did not converge."""
    # Imported when used: it takes a second.
    from sklearn.cluster import AffinityPropagation  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    found: list[np.ndarray | None] = []
    every = GRID.temporal_ap()
    for setting in [every[row] for row in sampled()]:
        model = AffinityPropagation(
            damping=0.9,
            max_iter=500,
            convergence_iter=50,
            preference=setting.preference,
            affinity="precomputed",
            random_state=0,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            labels = model.fit(setting.similarity(V, positions)).labels_
        failed = any(issubclass(w.category, ConvergenceWarning) for w in caught)
        found.append(None if failed else labels)
    return found


def same_partitions(ours: np.ndarray, theirs: list[np.ndarray | None]) -> bool:
    """Whether labels (s, n) cut as scikit-learn's do, wherever that converged."""
    return all(
        bool(((a[:, None] == a[None, :]) == (b[:, None] == b[None, :])).all())
        for a, b in zip(ours, theirs, strict=True)
        if b is not None
    )


def _call(size: int) -> Callable[[], object]:
    V, positions, _ = synthetic_procedure(size)
    part = replace(GRID, alphas=GRID.alphas[:1], gammas=GRID.gammas[-1:])
    return lambda: search(V, positions, part)


def run(size: int = TRACKLETS) -> BenchResult:
    """Measure the search, counts and tracks on 19 procedures; size is tracklets of the largest.

    Ours is the paper's whole grid, really run, with all cores; it counts FR, FPR, precision and
    recall of every setting besides, and HOTA, IDF1 and the rest. The rival only clusters, under
    one setting in 179, and its seconds are scaled to all.
    `equal` compares these settings: partitions wherever scikit-learn converges, and tracking
    figures with those of each setting alone. The rate is settings of all 19 procedures a second;
    the exponent that of the largest procedure under 41 preferences on one thread. At least 24.
    """
    made = procedures(size)
    cores, settings, rows = os.cpu_count() or 1, len(GRID.temporal_ap()), sampled()
    ours(made[:1], cores)  # compiles, once per machine
    theirs: list[list[np.ndarray | None]] = []
    one_by_one(*made[0][:2])  # imports
    rival_s = best_of(lambda: theirs.extend(one_by_one(V, p) for V, p, _ in made), 1)
    answers: list[tuple[dict[str, np.ndarray], list[np.ndarray]]] = []
    ours_s = best_of(lambda: answers.append(ours(made, cores)), 1)
    figures, labels = answers[0]
    equal = all(same_partitions(mine, one) for mine, one in zip(labels, theirs, strict=True))
    return against(
        "sweep",
        f"scikit-learn one by one; {len(rows)} settings scaled to {settings}",
        size,
        ours_s=ours_s,
        rival_s=rival_s * settings / len(rows),
        exponent=growth(_call, size, 2),
        equal=equal and as_alone(made, labels, {k: v[rows] for k, v in figures.items()}),
        rate=settings / ours_s,
    )
