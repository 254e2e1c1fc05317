"""Losses against a target distribution: supervised, temporally aware, intra-inter, NT-Xent.

Every sample is an anchor, the other samples of the batch are its candidates, and a target
distribution weights the matches; the loss is the row-wise cross-entropy (temporally-aware counting,
arXiv 2507.02493, eq. 1 to 3; thesis, 5.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from polyplink.core.lazy_torch import torch
from polyplink.core.ranges import NOT_NEGATIVE, POSITIVE, Ranged
from polyplink.learn.contrastive import Views, cosine_logits, masked_logsumexp, mean_over


def soft_target_loss(
    embeddings: torch.Tensor, weights: torch.Tensor, temperature: float
) -> torch.Tensor:
    """Mean over anchors of the cross-entropy H(p, q); q is the softmax over the other samples.

    Source: temporally-aware counting, arXiv 2507.02493, eq. 1 and 3.

    Args:
        embeddings: (n, d); normalised here.
        weights: (n, n), at or above 0: each row divided by its sum is the target p. The diagonal
            is ignored.
        temperature: Divides the cosine.

    Returns:
        Scalar; rows with all weights 0 are left out; 0 if no row remains.
    """
    compared = ~torch.eye(len(weights), dtype=torch.bool, device=weights.device)  # n n
    logits = cosine_logits(embeddings, embeddings, temperature)  # n n
    weighted = torch.where(compared, weights.to(logits.dtype), 0.0)  # n n
    total = weighted.sum(dim=1)  # n
    target = weighted / total.clamp(min=torch.finfo(logits.dtype).tiny)[:, None]  # n n
    rows = masked_logsumexp(logits, compared) - (target * logits).sum(dim=1)  # n
    return mean_over(rows, total > 0)


def equal_codes(codes: torch.Tensor) -> torch.Tensor:
    """Matrix (n, n) float64 of codes (n,) int: 1 where row and column have the same code."""
    return (codes[:, None] == codes[None, :]).double()


def time_decay(position: torch.Tensor, decay: float) -> torch.Tensor:
    """Matrix (n, n) float64 of exp(-decay |p_a - p_b|) for positions (n,)."""
    at = position.double()
    return torch.exp(-decay * (at[:, None] - at[None, :]).abs())


@dataclass(frozen=True)
class SupervisedLoss(Ranged, prefix="loss"):
    """Supervised contrastive loss (Khosla et al. 2020, the form with the mean outside the log).

    All views of a polyp match equally. It is the baseline of temporally-aware counting (arXiv
    2507.02493; thesis 5.3.1).

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        temperature: Divides the cosine; 0.25 in the paper.
    """

    kind: Literal["supervised"] = "supervised"
    temperature: Annotated[float, POSITIVE] = 0.25

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps; 0 where no polyp has two views."""
        return soft_target_loss(views.tracklets, equal_codes(views.polyp), self.temperature)


@dataclass(frozen=True)
class TemporallyAwareLoss(Ranged, prefix="loss"):
    """Temporally-aware supervised contrastive loss (arXiv 2507.02493, eq. 2 and 3).

    Views of a polyp match more, the nearer they are in time. With two views of every polyp it
    equals the supervised loss.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        temperature: Divides the cosine; 0.25 in the paper.
        decay: lambda of eq. 2; 0 gives the supervised loss.
    """

    kind: Literal["temporally_aware"] = "temporally_aware"
    temperature: Annotated[float, POSITIVE] = 0.25
    decay: Annotated[float, NOT_NEGATIVE] = 1.0

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps and their times."""
        near = equal_codes(views.polyp) * time_decay(views.position, self.decay)  # n n
        return soft_target_loss(views.tracklets, near, self.temperature)


@dataclass(frozen=True)
class IntraInterLoss(Ranged, prefix="loss"):
    """Intra-inter multi-positive contrastive loss (thesis, eq. 5.10).

    The target is proportional to 1[same polyp] exp(-decay |t_i - t_j|) + gamma 1[same video]. The
    thesis does not state the unit of t; here it is the position between the polyp's first frame
    and its last, as in the other losses.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        temperature: Divides the cosine; 0.25 in the thesis.
        decay: lambda of eq. 5.10.
        gamma: Weight of the other views of the procedure; 0 gives the temporally-aware loss.
    """

    kind: Literal["intra_inter"] = "intra_inter"
    temperature: Annotated[float, POSITIVE] = 0.25
    decay: Annotated[float, NOT_NEGATIVE] = 1.0
    gamma: Annotated[float, NOT_NEGATIVE] = 0.2

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps, their times and their procedures."""
        near = equal_codes(views.polyp) * time_decay(views.position, self.decay)  # n n
        weights = near + self.gamma * equal_codes(views.procedure)  # n n
        return soft_target_loss(views.tracklets, weights, self.temperature)


@dataclass(frozen=True)
class NtXentLoss(Ranged, prefix="loss"):
    """Normalised temperature-scaled cross-entropy (Chen et al. 2020, eq. 1).

    The two views of a bag are a positive pair: this is the supervised loss with one class per bag.
    Intrator et al. 2023 (SFE, MVE) use it with temperature 0.07.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        temperature: Divides the cosine.
    """

    kind: Literal["nt_xent"] = "nt_xent"
    temperature: Annotated[float, POSITIVE] = 0.07

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its bags alone.

        A bag with a single view (from a short tracklet) has no loss, but its view is a negative for
        the others; in a bag of more than two views all match equally, as in the supervised loss.
        """
        return soft_target_loss(views.tracklets, equal_codes(views.bag), self.temperature)
