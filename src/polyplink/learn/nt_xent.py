"""NT-Xent, the loss of SimCLR: two views of one sample match, all others do not."""

from dataclasses import dataclass
from typing import Literal

import torch

from polyplink.learn.masked import check_temperature
from polyplink.learn.supervised import supervised
from polyplink.learn.views import Views


def nt_xent(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """Normalised temperature-scaled cross-entropy (Chen et al. 2020, eq. 1).

    Source of its use here: Intrator et al. 2023 (SFE, MVE), temperature 0.07.

    Args:
        first: (n, d) one view of each of n samples; normalised here.
        second: (n, d) the other view, in the same order.
        temperature: Divides the cosine.

    Returns:
        Scalar: the mean over the 2 n views.
    """
    pair = torch.arange(len(first), device=first.device).repeat(2)  # 2n
    return supervised(torch.cat([first, second]), pair, temperature)


@dataclass(frozen=True)
class NtXentLoss:
    """NT-Xent as fields of a recipe: the two views of a bag are the pair.

    Attributes:
        kind: Tells this loss from the others in a recipe's plain values.
        temperature: Divides the cosine.
    """

    kind: Literal["nt_xent"] = "nt_xent"
    temperature: float = 0.07

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def __call__(self, views: Views) -> torch.Tensor:
        """The loss of a batch, from its bags alone.

        A bag that a short tracklet left with one view gives no loss, but stands among the
        others; one of more than two views matches them all alike, as the supervised loss does.
        """
        return supervised(views.tracklets, views.bag, self.temperature)
