"""The intra-inter loss: views of one polyp near in time match, and a little all of one video."""

from dataclasses import dataclass
from typing import Literal

import torch

from polyplink.learn.masked import check_temperature, check_weight
from polyplink.learn.soft_targets import soft_target_loss
from polyplink.learn.supervised import same_polyp
from polyplink.learn.temporally_aware import fading
from polyplink.learn.views import Views


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
    gamma 0 gives the temporally-aware loss. The thesis does not say in which unit t is: give the
    position in the polyp's own span to stay with the other losses.

    Args:
        embeddings: (n, d); normalised here.
        polyp: (n,) int, the polyp of each view.
        procedure: (n,) int, its procedure.
        time: (n,) its time.
        temperature: Divides the cosine; 0.25 in the thesis.
        decay: lambda, at or above 0.
        gamma: Weight of the other views of the same procedure, at or above 0.

    Returns:
        Scalar; 0 where no view has a match.
    """
    near = same_polyp(polyp) * fading(time, decay)  # n n
    return soft_target_loss(embeddings, near + gamma * same_polyp(procedure), temperature)


@dataclass(frozen=True)
class IntraInterLoss:
    """The intra-inter loss as fields of a recipe; time is the position in the polyp's span.

    Attributes:
        kind: Tells this loss from the others in a recipe's plain values.
        temperature: Divides the cosine.
        decay: lambda of eq. 5.10.
        gamma: Weight of the other views of the procedure; 0 gives the temporally-aware loss.
    """

    kind: Literal["intra_inter"] = "intra_inter"
    temperature: float = 0.25
    decay: float = 1.0
    gamma: float = 0.2

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_weight("decay", self.decay)
        check_weight("gamma", self.gamma)

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
