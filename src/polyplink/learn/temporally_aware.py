"""The temporally-aware loss: views of one polyp match the more, the nearer they are in time."""

from dataclasses import dataclass
from typing import Literal

import torch

from polyplink.learn.masked import check_temperature, check_weight
from polyplink.learn.soft_targets import soft_target_loss
from polyplink.learn.supervised import same_polyp
from polyplink.learn.views import Views


def fading(position: torch.Tensor, decay: float) -> torch.Tensor:
    """(n, n) float64: exp(-decay |p_a - p_b|) of positions (n,)."""
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

    With two views of every polyp, or decay 0, it is the supervised loss.

    Args:
        embeddings: (n, d); normalised here.
        polyp: (n,) int, the polyp of each view.
        position: (n,) time of each view over the length of its polyp: positions in the polyp's
            own span (`fragments` gives them as polyp_position).
        temperature: Divides the cosine; 0.25 in the paper.
        decay: lambda of eq. 2, at or above 0.

    Returns:
        Scalar; 0 where no polyp has two views.
    """
    return soft_target_loss(embeddings, same_polyp(polyp) * fading(position, decay), temperature)


@dataclass(frozen=True)
class TemporallyAwareLoss:
    """The temporally-aware loss as fields of a recipe.

    Attributes:
        kind: Tells this loss from the others in a recipe's plain values.
        temperature: Divides the cosine.
        decay: lambda of eq. 2; 0 gives the supervised loss.
    """

    kind: Literal["temporally_aware"] = "temporally_aware"
    temperature: float = 0.25
    decay: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_weight("decay", self.decay)

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps and their times."""
        return temporally_aware(
            views.tracklets, views.polyp, views.position, self.temperature, decay=self.decay
        )
