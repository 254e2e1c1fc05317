"""Affinity propagation with all messages, as scikit-learn's: what fast code must equal."""

from dataclasses import dataclass

import numpy as np

from polyplink.associate.affinity_few import CONVERGENCE_ITER, DAMPING, MAX_ITER


@dataclass(frozen=True)
class Plain:
    """Messages (n, n) after the last round, exemplars (n,), rounds, and whether it settled."""

    A: np.ndarray
    R: np.ndarray
    is_exemplar: np.ndarray
    rounds: int
    settled: bool


def settle(S: np.ndarray) -> Plain:
    """Pass all messages on S (n, n), preferences on its diagonal, round by round."""
    n = len(S)
    A, R, rows = np.zeros((n, n)), np.zeros((n, n)), np.arange(n)
    is_exemplar, unchanged = np.zeros(n, dtype=bool), 0
    for t in range(MAX_ITER):
        values = A + S
        chosen = values.argmax(axis=1)
        first = values[rows, chosen]
        values[rows, chosen] = -np.inf
        rival = np.repeat(first[:, None], n, axis=1)
        rival[rows, chosen] = values.max(axis=1)
        R = R * DAMPING + (S - rival) * (1 - DAMPING)
        positive = np.maximum(R, 0)
        np.fill_diagonal(positive, R.diagonal())
        short = positive - positive.sum(axis=0)
        own = short.diagonal().copy()
        short = np.maximum(short, 0)
        np.fill_diagonal(short, own)
        A = A * DAMPING - short * (1 - DAMPING)
        marks = (A + R).diagonal() > 0
        unchanged = 1 if (marks != is_exemplar).any() else unchanged + 1
        is_exemplar = marks
        if t >= CONVERGENCE_ITER and unchanged >= CONVERGENCE_ITER and marks.any():
            return Plain(A, R, is_exemplar, t + 1, True)
    return Plain(A, R, is_exemplar, MAX_ITER, False)
