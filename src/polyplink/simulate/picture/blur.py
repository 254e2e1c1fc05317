"""Blur of a frame: a lens out of focus (Gaussian) and a picture that moves while exposed (a line).

Images are (3, s, h, w). Beyond a window's edge the edge goes on, so that within the blur's reach
of its edges a window differs a little from its frame.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.picture.window import onto

LEAST = 0.25  # pixels; less blur than this is not drawn
MOST_TAPS = 9  # pictures that a moving one is the mean of
FLAT = {-2: (-3, -2), -1: (-2, -1)}  # dimensions that blocks and phases are joined from
WIDE = 2.0  # pixels; a wider Gaussian is computed at a lower resolution


def pad_edges(images: Tensor, reach: int) -> Tensor:
    """The last pixels repeated on all four sides; several times as fast as torch's own here."""
    *lead, h, w = images.shape
    padded = images.new_empty(*lead, h + 2 * reach, w + 2 * reach)
    middle = padded[..., reach : reach + h, :]
    middle[..., reach : reach + w] = images
    middle[..., :reach] = images[..., :1]
    middle[..., reach + w :] = images[..., -1:]
    padded[..., :reach, :] = middle[..., :1, :]
    padded[..., reach + h :, :] = middle[..., -1:, :]
    return padded


def _gaussian(images: Tensor, sigma: Tensor, reach: int) -> Tensor:
    """Gaussian blur with a standard deviation (s,) each, cut off at `reach` pixels."""
    taps = torch.arange(-reach, reach + 1, device=images.device)
    weights = torch.exp(-0.5 * (taps / sigma[:, None]) ** 2)
    weights = (weights / weights.sum(1, keepdim=True))[:, :, None, None]  # (s, t, 1, 1)
    padded = pad_edges(images, reach)
    h, w = images.shape[2:]
    rows = padded[:, :, :h] * weights[:, 0]
    for tap in range(1, len(taps)):
        rows.addcmul_(padded[:, :, tap : tap + h], weights[:, tap])
    blurred = rows[..., :w] * weights[:, 0]
    for tap in range(1, len(taps)):
        blurred.addcmul_(rows[..., tap : tap + w], weights[:, tap])
    return blurred


def _shrink(images: Tensor, factor: int) -> Tensor:
    """Means of blocks of factor x factor pixels; the last blocks repeat the edge."""
    h, w = images.shape[2:]
    grown = pad_edges(images, factor - 1)[..., factor - 1 :, factor - 1 :]
    h, w = -(-h // factor) * factor, -(-w // factor) * factor
    rows = grown[..., 0:h:factor, :w].clone()
    for row in range(1, factor):
        rows += grown[..., row:h:factor, :w]
    blocks = rows[..., 0::factor].clone()
    for column in range(1, factor):
        blocks += rows[..., column::factor]
    return blocks / (factor * factor)


def _grow(images: Tensor, factor: int) -> Tensor:
    """Back to factor times the size, bilinear."""
    for dimension in (-2, -1):
        n = images.shape[dimension]
        padded = pad_edges(images, 1)
        padded = padded[..., 1:-1] if dimension == -2 else padded[..., 1:-1, :]
        phases = []
        for phase in range(factor):
            place = (phase + 0.5) / factor + 0.5  # from the middle of the texel before
            first = int(place)
            low = padded.narrow(dimension, first, n)
            high = padded.narrow(dimension, min(first + 1, 2), n)
            phases.append(torch.lerp(low, high, place - first))
        # A phase is a row (or column) of every block: block, phase, then one after the other.
        images = torch.stack(phases, -1 if dimension == -1 else -2).flatten(*FLAT[dimension])
    return images


def _wide_gaussian(images: Tensor, sigma: Tensor, factor: int) -> Tensor:
    """The same at `factor` times less resolution.

    Written out in elementwise steps: torch's own pooling and interpolation round differently for
    one image than for several, and a frame must not depend on what it is blurred with.
    """
    h, w = images.shape[2:]
    # Means and the way back blur too: by a box and a tent of `factor` pixels.
    own = (factor * factor - 1) / 12 + (factor * factor) / 6
    small = (sigma.square() - own).clamp_min(0.1).sqrt() / factor
    return _grow(_gaussian(_shrink(images, factor), small, 5), factor)[..., :h, :w]


def defocus(images: Tensor, sigma: NDArray[np.float32]) -> Tensor:
    """Blur pictures by a Gaussian each.

    Args:
        images: (3, s, h, w).
        sigma: (s,) standard deviations, pixels.
    """
    blurred = images.clone()
    level = np.ceil(np.log2(np.maximum(sigma, 1e-3) / WIDE)).clip(0, 5).astype(int)
    level[sigma < LEAST] = -1
    for one in np.unique(level[level >= 0]):
        which = onto(np.flatnonzero(level == one), images.device)
        own = onto(sigma[level == one], images.device)
        some = images[:, which]
        blurred[:, which] = _wide_gaussian(some, own, 2**one) if one else _gaussian(some, own, 5)
    return blurred


def motion_taps(motion: NDArray[np.float32]) -> NDArray[np.int64]:
    """Whole-pixel shifts (s, t, 2), right and down, along every picture's way (s, 2), pixels."""
    t = np.linspace(-0.5, 0.5, MOST_TAPS, dtype=np.float32)
    return np.asarray(np.rint(motion[:, None] * t[:, None]), np.int64)


def _mean_of_slices(images: Tensor, taps: NDArray[np.int64]) -> Tensor:
    """One picture (3, h, w), shifted by taps (t, 2): slices of it, each shift read once."""
    h, w = images.shape[1:]
    shifts, counts = np.unique(taps, axis=0, return_counts=True)
    reach = int(np.abs(shifts).max())
    padded, total = pad_edges(images, reach), torch.zeros_like(images)
    for (x, y), count in zip(shifts.tolist(), counts.tolist(), strict=True):
        part = padded[:, reach - y : reach - y + h, reach - x : reach - x + w]
        total.add_(part, alpha=count / len(taps))
    return total


def _mean_of_gathers(images: Tensor, taps: NDArray[np.int64]) -> Tensor:
    """Pictures (3, s, h, w), shifted by taps (s, t, 2): a few large reads for all of them."""
    s, h, w = images.shape[1:]
    device, total = images.device, torch.zeros_like(images)
    shifts = onto(taps, device)
    each = torch.arange(s, device=device)[:, None, None]
    rows, columns = torch.arange(h, device=device), torch.arange(w, device=device)
    for tap in range(taps.shape[1]):
        y = (rows - shifts[:, tap, 1, None]).clamp(0, h - 1)[:, :, None]
        x = (columns - shifts[:, tap, 0, None]).clamp(0, w - 1)[:, None, :]
        total += images[:, each, y, x]
    total /= taps.shape[1]
    return total


def smear(images: Tensor, motion: NDArray[np.float32]) -> Tensor:
    """Blur pictures along the way that they move while exposed.

    Args:
        images: (3, s, h, w).
        motion: (s, 2) right and down, pixels.
    """
    taps = motion_taps(motion)
    if images.device.type != "cpu":
        return _mean_of_gathers(images, taps)
    moved = [_mean_of_slices(images[:, k], taps[k]) for k in range(len(taps))]
    return torch.stack(moved, dim=1)
