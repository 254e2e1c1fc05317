import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.picture.blur import (
    _grow,
    _mean_of_gathers,
    _mean_of_slices,
    _shrink,
    defocus,
    motion_taps,
    pad_edges,
    smear,
)


def pictures(s: int, h: int = 40, w: int = 52) -> Tensor:
    noise = torch.from_numpy(
        np.random.default_rng(0).uniform(0, 1, (3, s, h, w)).astype(np.float32)
    )
    return functional.avg_pool2d(noise, 3, stride=1, padding=1)


def naive_gaussian(image: Tensor, sigma: float) -> np.ndarray:
    """Every pixel by itself: the weighted mean of all pixels around it."""
    reach = 14
    padded = np.pad(image.numpy(), ((0, 0), (reach, reach), (reach, reach)), mode="edge")
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets[:, None] ** 2 + offsets**2) / sigma**2)
    weights /= weights.sum()
    h, w = image.shape[1:]
    blurred = np.zeros(image.shape)
    for y in range(h):
        for x in range(w):
            around = padded[:, y : y + 2 * reach + 1, x : x + 2 * reach + 1]
            blurred[:, y, x] = (around * weights).sum(axis=(1, 2))
    return blurred


def test_padding_repeats_the_edges() -> None:
    images = pictures(2, 5, 7)
    expected = functional.pad(images, (3, 3, 3, 3), mode="replicate")
    assert torch.equal(pad_edges(images, 3), expected)


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_smaller_and_back_are_torchs_own_means_and_bilinear_way(factor: int) -> None:
    images = pictures(2, 32, 40)
    small = _shrink(images, factor)
    torch.testing.assert_close(small, functional.avg_pool2d(images, factor))
    expected = functional.interpolate(small, scale_factor=float(factor), mode="bilinear")
    torch.testing.assert_close(_grow(small, factor), expected)
    assert _shrink(images[..., :31, :33], factor).shape[2:] == (32 // factor, -(-33 // factor))


@pytest.mark.parametrize(("sigma", "tolerance"), [(0.7, 2e-3), (1.9, 6e-3), (3.5, 0.02)])
def test_defocus_is_the_naive_gaussian(sigma: float, tolerance: float) -> None:
    images = pictures(1, 32, 34)
    result = defocus(images, np.array([sigma], np.float32))[:, 0]
    apart = np.abs(result.numpy() - naive_gaussian(images[:, 0], sigma))
    assert apart[:, 8:-8, 8:-8].max() < tolerance  # at edges the wide one differs a little more
    assert apart.max() < 0.12


def test_no_blur_is_the_identity() -> None:
    images = pictures(2)
    assert torch.equal(defocus(images, np.zeros(2, np.float32)), images)
    torch.testing.assert_close(smear(images, np.zeros((2, 2), np.float32)), images)


def test_every_picture_is_blurred_by_its_own() -> None:
    """Whatever it is computed together with."""
    images, sigma = pictures(4), np.array([0.0, 1.0, 5.0, 1.4], np.float32)
    motion = np.array([[0, 0], [6, 1], [-3, 9], [30, 0]], np.float32)
    together = defocus(images, sigma), smear(images, motion)
    for k in range(4):
        one = slice(k, k + 1)
        assert torch.equal(together[0][:, one], defocus(images[:, one], sigma[one]))
        assert torch.equal(together[1][:, one], smear(images[:, one], motion[one]))


def test_slices_are_the_gathers() -> None:
    images = pictures(3)
    taps = motion_taps(np.array([[6, 1], [-3, 9], [25.5, -14]], np.float32))
    plain = _mean_of_gathers(images, taps)
    for k in range(3):
        torch.testing.assert_close(_mean_of_slices(images[:, k], taps[k]), plain[:, k])


def test_movement_blurs_along_its_way_alone() -> None:
    image = torch.zeros(3, 1, 21, 31)
    image[:, :, 10, 15] = 1.0
    moved = smear(image, np.array([[8, 0]], np.float32))[0, 0]
    assert moved.sum().item() == pytest.approx(1)
    assert (moved[10] > 0).sum() == 9
    assert moved[:10].sum() == moved[11:].sum() == 0
