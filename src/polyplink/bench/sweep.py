"""Searching the settings of temporal affinity propagation, against scikit-learn one by one."""

import os
import warnings
from collections.abc import Callable

import numpy as np
import torch

from polyplink.associate import Grid, paper_grid, sweep
from polyplink.associate.similarity import Reals, visual
from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.evaluate import ProcedureCounts, count_procedure

TRACKLETS = 480  # of the largest procedure
SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 20, 24, 30, 42, 84, 480)  # of 19 procedures
# Every 20th setting of the paper's along each axis or so; the preferences that are answered
# without running are as common as in the whole grid: 2 of 5 here, 16 of 41 there.
GRID = Grid(alphas=(0.25, 0.75), gammas=(0.5, 4.0), preferences=(-4.0, -1.5, 0.75, 2.0, 4.0))

LARGE = 64  # tracklets from which a GPU is used where there is one

Procedure = tuple[Reals, Reals, list[int]]


def whole_grid() -> int:
    """Settings of temporal affinity propagation in the paper's grid."""
    return len(paper_grid().temporal_ap())


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
    """Labels (s, n) of a procedure under every setting; a large one on a GPU where there is one."""
    if len(V) >= LARGE and torch.cuda.is_available():
        return sweep(V, positions, GRID, device=torch.device("cuda")).labels
    return sweep(V, positions, GRID, threads=threads).labels


def counted(made: list[Procedure], threads: int) -> list[ProcedureCounts]:
    """Ours: every procedure under every setting, and its counts."""
    return [
        count_procedure(labelled(V, positions, threads), polyps) for V, positions, polyps in made
    ]


def one_by_one(V: Reals, positions: Reals) -> list[np.ndarray | None]:
    """The rival: scikit-learn's labels under every setting, None where it did not converge."""
    # Imported when used: it takes a second.
    from sklearn.cluster import AffinityPropagation  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    found: list[np.ndarray | None] = []
    for setting in GRID.temporal_ap():
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
    return lambda: sweep(V, positions, GRID)


def run(size: int = TRACKLETS) -> BenchResult:
    """Measure `sweep` and `count_procedure` on 19 procedures; size is tracklets of the largest.

    Ours uses all cores, or a GPU where there is one, and counts FR, FPR, precision and recall of
    every setting besides; the rival only clusters. Both have 20 settings, and seconds are scaled
    to the paper's 29,274: settings cost alike but for the share of preferences above every
    similarity, which is that of the whole grid. `equal` compares partitions wherever scikit-learn
    converges. The rate is settings of all 19 procedures a second; the exponent that of the
    largest procedure on one thread. At least 24.
    """
    made = procedures(size)
    cores = os.cpu_count() or 1
    counted(made[:2], cores)  # compiles, once per machine
    theirs: list[list[np.ndarray | None]] = []
    one_by_one(*made[0][:2])  # imports
    scale = whole_grid() / len(GRID.temporal_ap())
    rival_s = best_of(lambda: theirs.extend(one_by_one(V, p) for V, p, _ in made), 1)
    equal = all(
        same_partitions(labelled(V, positions, cores), labels)
        for (V, positions, _), labels in zip(made, theirs, strict=True)
    )
    ours_s = best_of(lambda: counted(made, cores), 3)
    return against(
        "sweep",
        f"scikit-learn one by one; {len(GRID.temporal_ap())} settings scaled to {whole_grid()}",
        size,
        ours_s=ours_s * scale,
        rival_s=rival_s * scale,
        exponent=growth(_call, size, 2),
        equal=equal,
        rate=len(GRID.temporal_ap()) / ours_s,
    )
