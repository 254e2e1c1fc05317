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


def same_polyp(polyp: torch.Tensor) -> torch.Tensor:
    """Matrix (n, n) float64 of polyps (n,) int: 1 where row and column show the same polyp."""
    return (polyp[:, None] == polyp[None, :]).double()


def supervised(embeddings: torch.Tensor, polyp: torch.Tensor, temperature: float) -> torch.Tensor:
    """Supervised contrastive loss (Khosla et al. 2020, the form with the mean outside the log).

    It is the baseline of temporally-aware counting (arXiv 2507.02493; thesis 5.3.1), where the
    temperature is 0.25.

    Args:
        embeddings: (n, d); normalised here.
        polyp: (n,) int, the polyp of each view.
        temperature: Divides the cosine.

    Returns:
        Scalar; 0 where no polyp has two views.
    """
    return soft_target_loss(embeddings, same_polyp(polyp), temperature)


@dataclass(frozen=True)
class SupervisedLoss(Ranged, prefix="loss"):
    """The supervised loss, configured by a recipe.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        temperature: Divides the cosine.
    """

    kind: Literal["supervised"] = "supervised"
    temperature: Annotated[float, POSITIVE] = 0.25

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps."""
        return supervised(views.tracklets, views.polyp, self.temperature)


def fading(position: torch.Tensor, decay: float) -> torch.Tensor:
    """Matrix (n, n) float64 of exp(-decay |p_a - p_b|) for positions (n,)."""
    at = position.double()
    return torch.exp(-decay * (at[:, None] - at[None, :]).abs())


def temporally_aware(
    embeddings: torch.Tensor,
    polyp: torch.Tensor,
    position: torch.Tensor,
    temperature: float,
    *,
    decay: float = 1.0,
) -> torch.Tensor:
    """Temporally-aware supervised contrastive loss (arXiv 2507.02493, eq. 2 and 3).

    With two views of every polyp, or with decay 0, it equals the supervised loss.

    Args:
        embeddings: (n, d); normalised here.
        polyp: (n,) int, the polyp of each view.
        position: (n,) time of each view, from 0 at its polyp's first frame to 1 at its last
            (`fragments` gives it as polyp_position).
        temperature: Divides the cosine; 0.25 in the paper.
        decay: lambda of eq. 2, at or above 0.

    Returns:
        Scalar; 0 where no polyp has two views.
    """
    return soft_target_loss(embeddings, same_polyp(polyp) * fading(position, decay), temperature)


@dataclass(frozen=True)
class TemporallyAwareLoss(Ranged, prefix="loss"):
    """The temporally-aware loss, configured by a recipe.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        temperature: Divides the cosine.
        decay: lambda of eq. 2; 0 gives the supervised loss.
    """

    kind: Literal["temporally_aware"] = "temporally_aware"
    temperature: Annotated[float, POSITIVE] = 0.25
    decay: Annotated[float, NOT_NEGATIVE] = 1.0

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps and their times."""
        return temporally_aware(
            views.tracklets, views.polyp, views.position, self.temperature, decay=self.decay
        )


def intra_inter(
    embeddings: torch.Tensor,
    polyp: torch.Tensor,
    procedure: torch.Tensor,
    time: torch.Tensor,
    temperature: float,
    *,
    decay: float = 1.0,
    gamma: float = 0.2,
) -> torch.Tensor:
    """Intra-inter multi-positive contrastive loss (thesis, eq. 5.10).

    The target is proportional to 1[same polyp] exp(-decay |t_i - t_j|) + gamma 1[same video];
    gamma 0 gives the temporally-aware loss. The thesis does not state the unit of t; use the
    position between the polyp's first frame and its last, as in the other losses.

    Args:
        embeddings: (n, d); normalised here.
        polyp: (n,) int, the polyp of each view.
        procedure: (n,) int, the procedure of each view.
        time: (n,) the time of each view.
        temperature: Divides the cosine; 0.25 in the thesis.
        decay: lambda, at or above 0.
        gamma: Weight of the other views of the same procedure, at or above 0.

    Returns:
        Scalar; 0 where no view has a match.
    """
    near = same_polyp(polyp) * fading(time, decay)  # n n
    return soft_target_loss(embeddings, near + gamma * same_polyp(procedure), temperature)


@dataclass(frozen=True)
class IntraInterLoss(Ranged, prefix="loss"):
    """The intra-inter loss, configured by a recipe; time is the position in the polyp's span.

    Attributes:
        kind: Discriminates the losses in a recipe's JSON.
        temperature: Divides the cosine.
        decay: lambda of eq. 5.10.
        gamma: Weight of the other views of the procedure; 0 gives the temporally-aware loss.
    """

    kind: Literal["intra_inter"] = "intra_inter"
    temperature: Annotated[float, POSITIVE] = 0.25
    decay: Annotated[float, NOT_NEGATIVE] = 1.0
    gamma: Annotated[float, NOT_NEGATIVE] = 0.2

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps, their times and their procedures."""
        return intra_inter(
            views.tracklets,
            views.polyp,
            views.procedure,
            views.position,
            self.temperature,
            decay=self.decay,
            gamma=self.gamma,
        )


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
        return supervised(views.tracklets, views.bag, self.temperature)
