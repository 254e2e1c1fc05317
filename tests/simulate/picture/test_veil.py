import numpy as np
import torch

from polyplink.simulate.picture.veil import draw_clouds, read_clouds, smoke, water
from polyplink.simulate.picture.window import Windows

CLOUDS = draw_clouds(np.random.default_rng(0))
FRAME = (80, 64)
WHOLE = Windows(torch.tensor([[0.0, 0.0, 80.0, 64.0]]), FRAME, FRAME)
PART = Windows(torch.tensor([[20.0, 16.0, 60.0, 48.0]]), FRAME, (40, 32))
CROP = (..., slice(16, 48), slice(20, 60))
DRIFT = torch.tensor([[0.3, -0.2]])
IMAGES = torch.rand(3, 1, 64, 80, generator=torch.Generator().manual_seed(0))


def test_clouds_are_shares_and_tile() -> None:
    assert CLOUDS.min() >= 0
    assert CLOUDS.max() <= 1
    assert torch.equal(CLOUDS[:, 0], CLOUDS[:, -1])
    assert torch.equal(CLOUDS[..., 0], CLOUDS[..., -1])


def test_a_window_shows_the_clouds_of_its_frame() -> None:
    whole, part = (read_clouds(CLOUDS, windows, DRIFT, 1.7) for windows in (WHOLE, PART))
    torch.testing.assert_close(part, whole[CROP], atol=1e-4, rtol=0)


def test_clouds_move_with_their_drift() -> None:
    here, there = (
        read_clouds(CLOUDS, WHOLE, torch.tensor([[drift, 0.0]]))[0, 0] for drift in (0.0, 0.1)
    )
    torch.testing.assert_close(there[:, 8:], here[:, :-8], atol=1e-4, rtol=0)


def test_no_smoke_and_no_water_change_nothing() -> None:
    cloud, none = read_clouds(CLOUDS, WHOLE, DRIFT), torch.zeros(1)
    assert torch.equal(smoke(IMAGES, none, cloud[0]), IMAGES)
    assert torch.equal(water(IMAGES, none, cloud[1], WHOLE), IMAGES)


def test_more_smoke_leaves_less_contrast() -> None:
    cloud = read_clouds(CLOUDS, WHOLE, DRIFT)[0]
    contrast = [smoke(IMAGES, torch.tensor([haze]), cloud).std() for haze in (0.0, 0.4, 0.9)]
    assert contrast[0] > contrast[1] > contrast[2]


def test_more_water_covers_more_of_the_picture() -> None:
    cloud = read_clouds(CLOUDS, WHOLE, DRIFT)[1]
    changed = [
        (water(IMAGES, torch.tensor([splash]), cloud, WHOLE) - IMAGES).abs().amax(0).gt(0.02)
        for splash in (0.1, 0.5, 1.0)
    ]
    shares = [float(one.float().mean()) for one in changed]
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.8
    result = water(IMAGES, torch.tensor([0.5]), cloud, WHOLE)
    assert result.min() >= 0
    assert result.max() <= 1
