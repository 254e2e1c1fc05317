"""Building blocks of contrastive losses: the views of a batch, and masked sums of cosines."""

from __future__ import annotations

from dataclasses import dataclass

from polyplink.core.lazy_torch import torch


@dataclass(frozen=True)
class Views:
    """The n views of a batch, s frames each, projected.

    Attributes:
        tracklets: (n, d), one embedding per view.
        frames: (n s, d), one per frame, packed in the order of the views.
        bag: (n,) int, the bag of each view; the views of a bag are assumed to show one polyp.
        anchor: (n,) bool, True for each bag's anchor.
        polyp: (n,) int, the true polyp; every view of an unknown polyp has a unique number.
        procedure: (n,) int, the procedure of each view.
        position: (n,) float in [0, 1], time of each view's first frame, from the polyp's first
            frame to its last; 0 where the polyp is unknown.
    """

    tracklets: torch.Tensor
    frames: torch.Tensor
    bag: torch.Tensor
    anchor: torch.Tensor
    polyp: torch.Tensor
    procedure: torch.Tensor
    position: torch.Tensor


def identities(polyp: torch.Tensor, is_known: torch.Tensor) -> torch.Tensor:
    """Polyp codes (n,) where `is_known` (n,) is True; elsewhere -1, -2, ..., each used once.

    Two views of unknown polyps count as two polyps, so that no loss treats them as a match.
    """
    alone = -1 - torch.arange(len(polyp), device=polyp.device)
    return torch.where(is_known, polyp, alone)


def masked_logsumexp(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Log-sum-exp over the entries of each row where the mask is True.

    Args:
        logits: (r, q) float.
        mask: (r, q) bool.

    Returns:
        (r,); for a row without entries a very low finite number (value and gradient are never
        NaN), which the caller must leave out.
    """
    lowest = torch.finfo(logits.dtype).min
    return torch.logsumexp(logits.masked_fill(~mask, lowest), dim=1)


def mean_over(rows: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Mean of the rows (r,) where `counted` (r,) is True; if there are none, 0 with gradient 0."""
    masked = torch.where(counted, rows, torch.zeros_like(rows))
    return masked.sum() / counted.sum().clamp(min=1)


def in_batch_accuracy(embeddings: torch.Tensor, bag: torch.Tensor, k: int) -> float:
    """Top-k accuracy among the views of a batch (thesis, table 5.11: k = 1 and 5).

    A view counts as correct if one of the k other views nearest to it by cosine is of its bag.

    Args:
        embeddings: (n, d).
        bag: (n,) int, the bag of each view.
        k: Number of neighbours.

    Returns:
        Share of correct views among those whose bag has another view; NaN if there are none.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.5], [0.0, 1.0]])
        >>> in_batch_accuracy(embeddings, torch.tensor([0, 0, 1, 1]), 1)
        0.75
    """
    logits = cosine_logits(embeddings, embeddings, 1.0).fill_diagonal_(-torch.inf)  # n n
    same_bag = bag[:, None] == bag[None, :]  # n n
    same_bag.fill_diagonal_(False)
    has_match = same_bag.any(dim=1)  # n
    nearest = logits.topk(min(k, len(bag) - 1), dim=1).indices  # n k
    return float(same_bag.gather(1, nearest)[has_match].any(dim=1).double().mean())


def cosine_logits(a: torch.Tensor, b: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cosine similarities divided by a temperature, computed in float64 even under autocast.

    A temperature of 0.07 multiplies the rounding error of a cosine by 14: in float32 only five
    digits of a loss would remain. A batch has a few hundred rows, so that the cost is negligible.

    Args:
        a: (r, d).
        b: (q, d).
        temperature: Above 0.

    Returns:
        (r, q) float64; gradients have the types of `a` and `b`.
    """
    with torch.autocast(a.device.type, enabled=False):
        directions_a = torch.nn.functional.normalize(a.double(), dim=1)
        directions_b = torch.nn.functional.normalize(b.double(), dim=1)
        return directions_a @ directions_b.T / temperature
