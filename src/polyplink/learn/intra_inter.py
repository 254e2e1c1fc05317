"""The intra-inter loss: views of one polyp near in time match, and a little all of one video."""

import torch

from polyplink.learn.soft_targets import soft_target_loss
from polyplink.learn.supervised import same_polyp
from polyplink.learn.temporally_aware import fading


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
