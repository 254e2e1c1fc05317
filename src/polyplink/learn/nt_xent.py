"""NT-Xent, the loss of SimCLR: two views of one sample match, all others do not."""

import torch

from polyplink.learn.supervised import supervised


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
