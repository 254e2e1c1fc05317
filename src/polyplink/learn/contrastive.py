"""Building blocks of contrastive losses: the views of a batch, and masked sums of cosines."""

from __future__ import annotations

from dataclasses import dataclass

from polyplink.core.on_demand import torch


@dataclass(frozen=True)
class Views:
    """The n views of a batch, s frames each, projected.

    Attributes:
        tracklets: (n, d), one embedding per view.
        frames: (n s, d), one per frame, packed in the order of the views.
        bag: (n,) int, the bag of each view: what the batch takes to show one polyp.
        anchor: (n,) bool, True for each bag's anchor.
        polyp: (n,) int, the true polyp; every view of an unknown polyp has a unique number.
        procedure: (n,) int, its procedure.
        position: (n,) float in [0, 1], time of its first frame in the polyp's own span; 0 where
            the polyp is unknown.
    """

    tracklets: torch.Tensor
    frames: torch.Tensor
    bag: torch.Tensor
    anchor: torch.Tensor
    polyp: torch.Tensor
    procedure: torch.Tensor
    position: torch.Tensor


def identities(polyp: torch.Tensor, is_known: torch.Tensor) -> torch.Tensor:
    """Polyps (n,) int at or above 0, where `is_known` (n,) is True; else -1, -2, ... each once.

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
        (r,); a row without any entry gives a very low finite number, never NaN in value or
        gradient, and must be left out by its caller.
    """
    lowest = torch.finfo(logits.dtype).min
    return torch.logsumexp(logits.masked_fill(~mask, lowest), dim=1)


def mean_over(rows: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Mean of rows (r,) where `counted` (r,) is True; 0 with a gradient of 0 where none is."""
    masked = torch.where(counted, rows, torch.zeros_like(rows))
    return masked.sum() / counted.sum().clamp(min=1)


def in_batch_accuracy(embeddings: torch.Tensor, bag: torch.Tensor, k: int) -> float:
    """Top-k accuracy among the views of a batch (thesis, table 5.11: k = 1 and 5).

    A view counts as right if one of its k nearest other views, by cosine, is of its bag.

    Args:
        embeddings: (n, d).
        bag: (n,) int, the bag of each view.
        k: Neighbours that are looked at.

    Returns:
        Share of the views that have another of their bag; NaN where none has.

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
    """Cosine similarities over a temperature, always computed in float64, also under autocast.

    A temperature of 0.07 multiplies the rounding of a cosine by 14: float32 would keep five
    digits of a loss. A batch has a few hundred rows, so that the step costs the same.

    Args:
        a: (r, d).
        b: (q, d).
        temperature: Above 0.

    Returns:
        (r, q) float64; gradients come back in the types of `a` and `b`.
    """
    with torch.autocast(a.device.type, enabled=False):
        directions_a = torch.nn.functional.normalize(a.double(), dim=1)
        directions_b = torch.nn.functional.normalize(b.double(), dim=1)
        return directions_a @ directions_b.T / temperature
