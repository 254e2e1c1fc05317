"""Searching the settings of temporal affinity propagation, against scikit-learn one by one."""

import warnings
from collections.abc import Callable

import numpy as np

from polyplink.associate import Grid, sweep
from polyplink.associate.similarity import Reals, visual
from polyplink.bench.harness import BenchResult, against, best_of, growth

TRACKLETS = 40  # the mean of the 19 evaluation procedures: 736 tracklets
GRID = Grid(alphas=(0.25, 0.5, 0.75), gammas=(0.5, 3.0), preferences=(-3.0, -0.5, 0.25, 0.75))


def synthetic_procedure(size: int) -> tuple[Reals, Reals]:
    """Visual similarity (n, n) and positions (n,) of a procedure of some polyps."""
    rng = np.random.default_rng(0)
    polyp = np.sort(rng.integers(0, max(size // 8, 2), size))
    centres = rng.normal(size=(polyp.max() + 1, 16))
    return visual(centres[polyp] + rng.normal(size=(size, 16))), np.linspace(0, 1, size)


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


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a[None, :]) == (b[:, None] == b[None, :])).all())


def _call(size: int) -> Callable[[], object]:
    V, positions = synthetic_procedure(size)
    return lambda: sweep(V, positions, GRID)


def run(size: int = TRACKLETS) -> BenchResult:
    """Measure `sweep` over 24 settings on one thread; size is tracklets, at least 8.

    `equal` compares partitions wherever scikit-learn converges.
    """
    V, positions = synthetic_procedure(size)
    sweep(V, positions, GRID)  # compiles, once per machine
    theirs: list[list[np.ndarray | None]] = []
    rival_s = best_of(lambda: theirs.append(one_by_one(V, positions)), 1)
    ours = sweep(V, positions, GRID)
    pairs = zip(ours.labels, theirs[0], strict=True)
    return against(
        "sweep",
        "scikit-learn, one setting at a time",
        size,
        ours_s=best_of(lambda: sweep(V, positions, GRID), 3),
        rival_s=rival_s,
        exponent=growth(_call, size, 3),
        equal=all(_same(a, b) for a, b in pairs if b is not None),
    )
