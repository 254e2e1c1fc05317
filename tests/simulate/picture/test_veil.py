import numpy as np
import torch

from polyplink.simulate.picture.veil import draw_clouds, read_clouds, smoke
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


def test_no_smoke_changes_nothing() -> None:
    cloud, none = read_clouds(CLOUDS, WHOLE, DRIFT), torch.zeros(1)
    assert torch.equal(smoke(IMAGES, none, cloud[0]), IMAGES)


def test_more_smoke_leaves_less_contrast() -> None:
    cloud = read_clouds(CLOUDS, WHOLE, DRIFT)[0]
    contrast = [smoke(IMAGES, torch.tensor([haze]), cloud).std() for haze in (0.0, 0.4, 0.9)]
    assert contrast[0] > contrast[1] > contrast[2]
