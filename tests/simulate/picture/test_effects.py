import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn import functional

from polyplink_lab.simulate.picture import effects
from polyplink_lab.simulate.picture.rays import Windows


def pictures(s: int, h: int = 40, w: int = 52) -> Tensor:
    noise = torch.from_numpy(
        np.random.default_rng(0).uniform(0, 1, (3, s, h, w)).astype(np.float32)
    )
    return functional.avg_pool2d(noise, 3, stride=1, padding=1)


@pytest.mark.parametrize(("sigma", "tolerance"), [(0, 0), (0.7, 2e-3), (1.9, 6e-3), (3.5, 0.02)])
def test_defocus_equals_the_gaussian_of_scipy(sigma: float, tolerance: float) -> None:
    images = pictures(1, 32, 34)
    result = effects.defocus(images, np.array([sigma], np.float32))[:, 0]
    error = np.abs(
        result.numpy() - gaussian_filter(images[:, 0], (0, sigma, sigma), mode="nearest")
    )
    assert error[:, 8:-8, 8:-8].max() <= tolerance  # wide blurs differ a little more at edges
    assert error.max() < 0.12


def test_motion_blurs_only_along_its_direction() -> None:
    image = torch.zeros(3, 1, 21, 31)
    image[:, :, 10, 15] = 1.0
    torch.testing.assert_close(effects.smear(image, np.zeros((1, 2), np.float32)), image)
    smeared = effects.smear(image, np.array([[8, 0]], np.float32))[0, 0]
    assert smeared.sum().item() == pytest.approx(1)
    assert (smeared[10] > 0).sum() == 9
    assert smeared[:10].sum() == smeared[11:].sum() == 0


WATER = effects.draw_drops(np.random.default_rng(0))
WET_FRAME = (320, 256)
WET = Windows(torch.tensor([[0.0, 0.0, *WET_FRAME]]), WET_FRAME, WET_FRAME)


def fine_lines() -> torch.Tensor:
    """A picture that water changes everywhere."""
    x = torch.arange(WET_FRAME[0]) % 2
    return (0.3 + 0.3 * x).expand(3, 1, WET_FRAME[1], WET_FRAME[0]).clone()


@pytest.mark.parametrize("splash", [0.3, 0.8])
def test_water_covers_its_share_of_the_picture(splash: float) -> None:
    """Averaged over a tile by moving the view."""
    steps = torch.linspace(0, effects.DROP_ZOOM, 3)[:-1]
    lines, amount = fine_lines(), np.array([splash], np.float32)
    shares = []
    for drift in torch.cartesian_prod(steps, steps):
        wet = effects.water(lines, amount, WATER, drift[None], WET)
        shares.append(((wet - lines).abs().amax((0, 1)) > 0.05).float().mean())
    assert float(np.mean(shares)) == pytest.approx(splash, abs=0.12)


CLOUDS = effects.draw_clouds(np.random.default_rng(0))
FRAME = (80, 64)
WHOLE = Windows(torch.tensor([[0.0, 0.0, 80.0, 64.0]]), FRAME, FRAME)
DRIFT = torch.tensor([[0.3, -0.2]])
IMAGES = torch.rand(3, 1, 64, 80, generator=torch.Generator().manual_seed(0))


def test_smoke_reduces_contrast() -> None:
    cloud = effects.read_clouds(CLOUDS, WHOLE, DRIFT)[0]
    contrast = [
        effects.smoke(IMAGES, torch.tensor([haze]), cloud).std() for haze in (0.0, 0.4, 0.9)
    ]
    assert contrast[0] > contrast[1] > contrast[2]


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 100))
def test_consecutive_blinks_are_of_one_kind(blink: list[bool], seed: int) -> None:
    kinds = effects.draw_blinks(np.random.default_rng(seed), np.array(blink, bool))
    assert (kinds >= 0).tolist() == blink
    assert kinds.max(initial=-1) < len(effects.BLINKS)
    for before, after in itertools.pairwise(kinds.tolist()):
        assert before < 0 or after < 0 or before == after
