"""Tokens of a vision transformer to one vector."""

from typing import Literal

import torch

Pooling = Literal["cls", "mean", "patchmean", "cat"]


def pool(tokens: torch.Tensor, pooling: Pooling, prefix: int = 1) -> torch.Tensor:
    """One vector of the tokens of an image.

    Args:
        tokens: (n, p, d): the cls token, where `prefix` is above 0 further tokens that are no
            patch, then the patches.
        pooling: "cls" is token 0; "mean" the mean over all tokens; "patchmean" that over the
            patches; "cat" cls and patchmean side by side.
        prefix: Tokens before the first patch.

    Returns:
        (n, d), or (n, 2d) for "cat".
    """
    if pooling == "mean":
        return tokens.mean(dim=1)
    if pooling == "cls":
        return tokens[:, 0]
    patches = tokens[:, prefix:].mean(dim=1)  # n d
    return patches if pooling == "patchmean" else torch.cat([tokens[:, 0], patches], dim=1)
