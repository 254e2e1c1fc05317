"""Contrastive losses against a wanted distribution: the row-wise cross-entropy underneath.

Temporally-aware counting (arXiv 2507.02493) eq. 1 to 3, and the thesis, 5.3.1: every sample is an
anchor, all others of the batch are its candidates, and a target says how much each should match.
"""

import torch

from polyplink.learn.masked import cosine_logits, masked_logsumexp, mean_over


def others_of(n: int, device: torch.device) -> torch.Tensor:
    """(n, n) bool: True where the column is another sample than the row."""
    return ~torch.eye(n, dtype=torch.bool, device=device)


def soft_target_loss(
    embeddings: torch.Tensor, weights: torch.Tensor, temperature: float
) -> torch.Tensor:
    """Mean over anchors of H(p, q), q the softmax over the other samples (eq. 1, 3).

    Args:
        embeddings: (n, d); normalised here.
        weights: (n, n), at or above 0: the target p before each row is divided by its sum. The
            diagonal does not count.
        temperature: Divides the cosine.

    Returns:
        Scalar; a row of no weight gives no loss, and 0 where there is no other row.
    """
    others = others_of(len(weights), weights.device)
    logits = cosine_logits(embeddings, embeddings, temperature)  # n n
    wanted = torch.where(others, weights.to(logits.dtype), 0.0)  # n n
    total = wanted.sum(dim=1)  # n
    target = wanted / total.clamp(min=torch.finfo(logits.dtype).tiny)[:, None]  # n n
    rows = masked_logsumexp(logits, others) - (target * logits).sum(dim=1)  # n
    return mean_over(rows, total > 0)
