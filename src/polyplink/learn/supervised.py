"""The supervised contrastive loss: all views of the anchor's polyp match alike."""

from dataclasses import dataclass
from typing import Literal

import torch

from polyplink.learn.masked import check_temperature
from polyplink.learn.soft_targets import soft_target_loss
from polyplink.learn.views import Views


def same_polyp(polyp: torch.Tensor) -> torch.Tensor:
    """(n, n) float64: 1 where row and column show one polyp; polyp is (n,) int."""
    return (polyp[:, None] == polyp[None, :]).double()


def supervised(embeddings: torch.Tensor, polyp: torch.Tensor, temperature: float) -> torch.Tensor:
    """Supervised contrastive loss (Khosla et al. 2020, the form with the mean outside the log).

    Source: temporally-aware counting, arXiv 2507.02493, its baseline; thesis 5.3.1. The
    temperature there is 0.25.

    Args:
        embeddings: (n, d); normalised here.
        polyp: (n,) int, the polyp of each view.
        temperature: Divides the cosine.

    Returns:
        Scalar; 0 where no polyp has two views.
    """
    return soft_target_loss(embeddings, same_polyp(polyp), temperature)


@dataclass(frozen=True)
class SupervisedLoss:
    """The supervised loss as fields of a recipe.

    Attributes:
        kind: Tells this loss from the others in a recipe's plain values.
        temperature: Divides the cosine.
    """

    kind: Literal["supervised"] = "supervised"
    temperature: float = 0.25

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its true polyps."""
        return supervised(views.tracklets, views.polyp, self.temperature)
