import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.picture import effects
from polyplink.simulate.picture.rays import Windows


def pictures(s: int, h: int = 40, w: int = 52) -> Tensor:
    noise = torch.from_numpy(
        np.random.default_rng(0).uniform(0, 1, (3, s, h, w)).astype(np.float32)
    )
    return functional.avg_pool2d(noise, 3, stride=1, padding=1)


@pytest.mark.parametrize(("sigma", "tolerance"), [(0.7, 2e-3), (1.9, 6e-3), (3.5, 0.02)])
def test_defocus_is_the_gaussian_of_scipy(sigma: float, tolerance: float) -> None:
    images = pictures(1, 32, 34)
    result = effects.defocus(images, np.array([sigma], np.float32))[:, 0]
    apart = np.abs(
        result.numpy() - gaussian_filter(images[:, 0], (0, sigma, sigma), mode="nearest")
    )
    assert apart[:, 8:-8, 8:-8].max() < tolerance  # at edges the wide one differs a little more
    assert apart.max() < 0.12


def test_no_blur_is_the_identity() -> None:
    images = pictures(2)
    assert torch.equal(effects.defocus(images, np.zeros(2, np.float32)), images)
    torch.testing.assert_close(effects.smear(images, np.zeros((2, 2), np.float32)), images)


def test_movement_blurs_along_its_way_alone() -> None:
    image = torch.zeros(3, 1, 21, 31)
    image[:, :, 10, 15] = 1.0
    moved = effects.smear(image, np.array([[8, 0]], np.float32))[0, 0]
    assert moved.sum().item() == pytest.approx(1)
    assert (moved[10] > 0).sum() == 9
    assert moved[:10].sum() == moved[11:].sum() == 0


WATER = effects.draw_drops(np.random.default_rng(0))
WET_FRAME = (320, 256)
WET = Windows(torch.tensor([[0.0, 0.0, *WET_FRAME]]), WET_FRAME, WET_FRAME)
STILL = torch.zeros(1, 2)


def through(
    splash: float, image: torch.Tensor, drift: torch.Tensor = STILL, drops: effects.Drops = WATER
) -> torch.Tensor:
    return effects.water(image, np.array([splash], np.float32), drops, drift, WET)


def fine_lines() -> torch.Tensor:
    """A picture that water blurs wherever it is."""
    x = torch.arange(WET_FRAME[0]) % 2
    return (0.3 + 0.3 * x).expand(3, 1, WET_FRAME[1], WET_FRAME[0]).clone()


def wet(splash: float, drift: torch.Tensor) -> torch.Tensor:
    """Which pixels (h, w) are under water."""
    return (through(splash, fine_lines(), drift) - fine_lines()).abs().amax((0, 1)) > 0.05


@pytest.mark.parametrize("splash", [0.3, 0.5, 0.8])
def test_water_covers_the_share_that_it_should(splash: float) -> None:
    """Over a whole tile, for which the view is moved about."""
    steps = torch.linspace(0, effects.DROP_ZOOM, 4)[:-1]
    shares = [wet(splash, torch.stack([x, y])[None]).float().mean() for x in steps for y in steps]
    assert float(np.mean(shares)) == pytest.approx(splash, abs=0.12)


def test_a_drop_shifts_what_is_behind_it_towards_its_slope() -> None:
    """On a ramp the brightness itself says where a pixel was read."""
    ramp = torch.linspace(0.3, 0.7, WET_FRAME[0]).expand(3, 1, WET_FRAME[1], WET_FRAME[0]).clone()
    tile, levels = WATER[0].clone(), WATER[1]
    tile[2] = 0
    for slope in (2.0, -2.0):
        # At the right end the edge goes on; in the middle a read further left is darker.
        reads = []
        for across in (slope, 0.0):
            tile[1] = across
            reads.append(through(1.0, ramp, drops=(tile, levels))[0, 0, 100:150, 60:260].mean())
        moved, alone = reads
        expected = -np.sign(slope) * 0.4 * effects.SHIFT
        assert float(moved - alone) == pytest.approx(expected, abs=0.3 * 0.4 * effects.SHIFT)


CLOUDS = effects.draw_clouds(np.random.default_rng(0))
FRAME = (80, 64)
WHOLE = Windows(torch.tensor([[0.0, 0.0, 80.0, 64.0]]), FRAME, FRAME)
DRIFT = torch.tensor([[0.3, -0.2]])
IMAGES = torch.rand(3, 1, 64, 80, generator=torch.Generator().manual_seed(0))


def test_clouds_move_with_their_drift() -> None:
    here, there = (
        effects.read_clouds(CLOUDS, WHOLE, torch.tensor([[drift, 0.0]]))[0, 0]
        for drift in (0.0, 0.1)
    )
    torch.testing.assert_close(there[:, 8:], here[:, :-8], atol=1e-4, rtol=0)


def test_more_smoke_leaves_less_contrast() -> None:
    cloud = effects.read_clouds(CLOUDS, WHOLE, DRIFT)[0]
    contrast = [
        effects.smoke(IMAGES, torch.tensor([haze]), cloud).std() for haze in (0.0, 0.4, 0.9)
    ]
    assert contrast[0] > contrast[1] > contrast[2]


WALL = torch.tensor([0.86, 0.30, 0.20])


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 100))
def test_a_run_of_blinks_is_of_one_kind(blink: list[bool], seed: int) -> None:
    kinds = effects.draw_blinks(np.random.default_rng(seed), np.array(blink, bool))
    assert (kinds >= 0).tolist() == blink
    assert kinds.max(initial=-1) < len(effects.BLINKS)
    for before, after in itertools.pairwise(kinds.tolist()):
        assert before < 0 or after < 0 or before == after


def test_blinks_show_clouds_in_their_own_colours() -> None:
    frame = (60, 48)
    windows = Windows(torch.tensor([[0.0, 0.0, 60.0, 48.0]]).repeat(3, 1), frame, frame)
    cloud = effects.read_clouds(
        effects.draw_clouds(np.random.default_rng(0)), windows, torch.zeros(3, 2)
    )
    images = effects.blinded(torch.tensor([0, 1, 2]), cloud, WALL)
    assert images.shape == (3, 3, 48, 60)
    assert images.min() >= 0
    assert images.max() <= 1
    red, slime, white = images.mean(dim=(2, 3)).T
    assert red[0] > 1.4 * red[1]
    assert slime[1] / slime[0] > red[1] / red[0]
    assert white.min() > 0.75
