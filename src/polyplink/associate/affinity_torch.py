"""Affinity propagation of many preferences in one batch of tensors, for a GPU.

The messages are those of `affinity`, computed for all preferences at once. Sums are taken in
another order, so that their last bits differ. That matters only where nothing but these bits
breaks a tie, between two tracklets that are each other's nearest, say; such a run is long, until
the difference has grown. Runs that are long, or whose preference ties with a similarity, are
therefore done again by the exact kernel, and the partitions are equal to its own.
"""

import numpy as np
import numpy.typing as npt
import torch

from polyplink.associate.affinity import Labels, assign, propagate, with_noise
from polyplink.associate.affinity_few import CONVERGENCE_ITER, DAMPING, MAX_ITER
from polyplink.associate.similarity import Reals, checked_square

# Rounds from which a run is done again. Of 4,100 runs with other last bits none that was shorter
# came to another partition, but for two whose preference tied with the largest similarity.
DOUBT = 150
NEAR = 1e-9  # a preference as near to the largest similarity ties with it
BATCH = 1 << 27  # numbers of a batch of messages held at a time

Mask = npt.NDArray[np.bool_]


def _round(
    S: torch.Tensor, A: torch.Tensor, R: torch.Tensor, diagonal: torch.Tensor
) -> torch.Tensor:
    """One round in place; a(k, k) + r(k, k) of every run (p, n).

    Args:
        S: Similarities (p, n, n), preferences on the diagonals.
        A: Availabilities (p, n, n).
        R: Responsibilities (p, n, n).
        diagonal: Which entries are on a diagonal (n, n).
    """
    values, places = (A + S).topk(2, dim=2)  # p n 2
    rival = values[:, :, :1].expand_as(S).clone()
    rival.scatter_(2, places[:, :, :1], values[:, :, 1:])
    R.mul_(DAMPING).add_(S - rival, alpha=1 - DAMPING)
    own = R.diagonal(dim1=1, dim2=2)  # p n
    positive = torch.where(diagonal, R, R.clamp(min=0.0))
    short = positive - positive.sum(dim=1, keepdim=True)  # p n n
    exact = short.diagonal(dim1=1, dim2=2).clone()
    short.clamp_(min=0.0)
    short.diagonal(dim1=1, dim2=2).copy_(exact)
    A.mul_(DAMPING).sub_(short, alpha=1 - DAMPING)
    return A.diagonal(dim1=1, dim2=2) + own


def _marks(S: torch.Tensor) -> tuple[Mask, npt.NDArray[np.int64], Mask]:
    """Exemplars (p, n), rounds (p,) and convergence (p,) of p runs on S (p, n, n)."""
    p, n, _ = S.shape
    A, R = torch.zeros_like(S), torch.zeros_like(S)
    diagonal = torch.eye(n, dtype=torch.bool, device=S.device)
    marks = np.zeros((p, n), dtype=np.bool_)
    unchanged, rounds = np.zeros(p, np.int64), np.full(p, MAX_ITER)
    converged, running = np.zeros(p, np.bool_), np.arange(p)
    for iteration in range(min(MAX_ITER, DOUBT + 1)):
        now = (_round(S, A, R, diagonal) > 0).cpu().numpy()
        changed = (now != marks[running]).any(axis=1)
        marks[running] = now
        unchanged[running] = np.where(changed, 1, unchanged[running] + 1)
        done = (unchanged[running] >= CONVERGENCE_ITER) & now.any(axis=1)
        if iteration < CONVERGENCE_ITER or not done.any():
            continue
        rounds[running[done]], converged[running[done]] = iteration + 1, True
        left = torch.from_numpy(np.flatnonzero(~done)).to(S.device)
        S, A, R, running = S[left], A[left], R[left], running[~done]
        if not running.size:
            break
    return marks, rounds, converged


def propagate_on(
    S: npt.ArrayLike,
    preferences: npt.ArrayLike,
    device: torch.device,
    noise: Reals | None = None,
) -> tuple[Labels, Mask]:
    """As `affinity.propagate`, in float64 on a device.

    Args:
        S: Similarities (n, n); the diagonal is not read.
        preferences: Preferences (p,).
        device: Where messages are passed.
        noise: As for `propagate`.

    Returns:
        Labels (p, n) and converged (p,), as `propagate` gives them.

    Raises:
        PolyplinkError: As `propagate`.
    """
    given = checked_square(S)
    wanted = np.atleast_1d(np.asarray(preferences, dtype=np.float64))
    n = len(given)
    others = given[~np.eye(n, dtype=bool)]
    if n < 3 or others.max() - others.min() < NEAR or not np.isfinite(wanted).all():
        return propagate(given, wanted, noise)
    noisy, diagonals = with_noise(given, wanted, noise)
    labels = np.zeros((wanted.size, n), dtype=np.int32)
    converged = np.zeros(wanted.size, dtype=np.bool_)
    sure = np.zeros(wanted.size, dtype=np.bool_)
    free = wanted > others.max() + NEAR  # every tracklet alone, and the kernel knows at once
    clear = np.flatnonzero(~free & (wanted < others.max() - NEAR))
    step = max(1, BATCH // (n * n))
    for start in range(0, clear.size, step):
        rows = clear[start : start + step]
        batch = torch.from_numpy(noisy).to(device).repeat(rows.size, 1, 1)  # p n n
        batch.diagonal(dim1=1, dim2=2).copy_(torch.from_numpy(diagonals[rows]))
        marks, rounds, converged[rows] = _marks(batch)
        sure[rows] = converged[rows] & (rounds <= DOUBT)
        for row, mark in zip(rows, marks, strict=True):
            if sure[row]:
                labels[row] = _labelled(noisy, diagonals[row], mark)
    again = np.flatnonzero(~sure)
    if again.size:
        labels[again], converged[again] = propagate(given, wanted[again], noise)
    return labels, converged


def _labelled(noisy: Reals, diagonal: Reals, mark: Mask) -> Labels:
    np.fill_diagonal(noisy, diagonal)
    labels = np.empty(mark.size, dtype=np.int32)
    assign(noisy, np.flatnonzero(mark), labels)
    return labels
