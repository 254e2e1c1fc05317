"""What a loss is given: the embeddings of a batch, and what is known of each view."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Views:
    """The n views of a batch, s frames each, projected.

    Attributes:
        tracklets: (n, d), one embedding per view.
        frames: (n s, d), one per frame, packed in the order of the views.
        bag: (n,) int, the bag of each view: what the batch takes to show one polyp.
        anchor: (n,) bool, True for each bag's anchor.
        polyp: (n,) int, the true polyp; a view of an unknown one has a number of its own.
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


def identities(polyp: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Polyps (n,) int at or above 0, where `known` (n,) is True; elsewhere -1, -2, ... each once.

    Two unknown views are two polyps: no loss may take them for a match.
    """
    alone = -1 - torch.arange(len(polyp), device=polyp.device)
    return torch.where(known, polyp, alone)
