"""One procedure clustered under every setting of a grid, each clustering computed once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from polyplink.associate.affinity import propagate, tie_noise
from polyplink.associate.settings import Grid, TemporalAP
from polyplink.associate.similarity import Reals
from polyplink.associate.threshold import threshold_components
from polyplink.core.errors import PolyplinkError

if TYPE_CHECKING:
    import torch

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Sweep:
    """The clusterings of one procedure, in the order of `Grid.settings`.

    Attributes:
        labels: Cluster of every tracklet under every setting (settings, n), int32.
        converged: Whether each clustering settled (settings,).
    """

    labels: Labels
    converged: npt.NDArray[np.bool_]


def _sweep_affinity(
    V: Reals, positions: npt.ArrayLike, grid: Grid, threads: int, device: "torch.device | None"
) -> Sweep:
    noise = tie_noise(len(V))

    def one_block(setting: TemporalAP) -> tuple[Labels, npt.NDArray[np.bool_]]:
        S = setting.similarity(V, positions)
        if device is None:
            return propagate(S, grid.preferences, noise)
        # Imported when used: torch takes seconds.
        from polyplink.associate.affinity_torch import propagate_on  # noqa: PLC0415

        return propagate_on(S, grid.preferences, device, noise)

    # With alpha = 1 time has no say, so that all gammas share one clustering.
    pairs = [
        (alpha, grid.gammas[0] if alpha == 1 else gamma)
        for alpha in grid.alphas
        for gamma in grid.gammas
    ]
    distinct = list(dict.fromkeys(pairs))
    blocks = [TemporalAP(alpha, gamma, 0.0) for alpha, gamma in distinct]
    with ThreadPoolExecutor(threads) as pool:
        answers = dict(zip(distinct, pool.map(one_block, blocks), strict=True))
    return Sweep(
        np.concatenate([answers[pair][0] for pair in pairs]),
        np.concatenate([answers[pair][1] for pair in pairs]),
    )


def sweep(
    V: Reals,
    positions: npt.ArrayLike,
    grid: Grid,
    *,
    threads: int = 1,
    device: "torch.device | None" = None,
) -> Sweep:
    """Cluster one procedure under every setting of a grid.

    Args:
        V: Visual similarities (n, n) in [0, 1], see `visual`.
        positions: Positions (n,) in [0, 1].
        grid: The settings.
        threads: Blocks of affinity propagation to run side by side; the result is the same.
        device: Where to pass messages in batches of all preferences; None for the CPU kernel.

    Returns:
        Labels (settings, n) and converged (settings,), in the order of `grid.settings()`.

    Raises:
        PolyplinkError: If the grid has no setting, or V and positions are not of one procedure.
    """
    parts = []
    if grid.temporal_ap():
        parts.append(_sweep_affinity(V, positions, grid, threads, device))
    if grid.thresholds:
        labels = threshold_components(V, grid.thresholds)
        parts.append(Sweep(labels, np.ones(len(labels), dtype=np.bool_)))
    if not parts:
        raise PolyplinkError("the grid has no setting", "give it parameters, or use paper_grid()")
    return Sweep(
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.converged for part in parts]),
    )
