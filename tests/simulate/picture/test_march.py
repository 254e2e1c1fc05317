import functools
import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from polyplink.simulate.colon.projection import FIELD
from polyplink.simulate.picture import march
from polyplink.simulate.picture.march import (
    SETTLE_ROUNDS,
    Beams,
    Eyes,
    beams_of,
    march_windows,
)
from polyplink.simulate.picture.windows import FAR, Windows
from tests.simulate.scenes import LUMPS, batch, wall_point

FRAME = (320, 256)
SURFACE = batch()


@functools.cache
def eyes() -> Eyes:
    """Two cameras on the centre line: one looks at a polyp, one down the lumen."""
    origins = torch.tensor([wall_point(z, 0.0) for z in (-0.3, 0.5)])
    origins[:, 0] -= 1
    forward = torch.stack([LUMPS[0].centre - origins[0], torch.tensor([0.1, -0.2, 1.0])])
    forward = torch.nn.functional.normalize(forward, dim=1)
    right = torch.linalg.cross(forward, torch.tensor([[0.1, 1.0, 0.2]]).expand(2, 3))
    right = torch.nn.functional.normalize(right, dim=1)
    down = torch.linalg.cross(forward, right)
    return Eyes(origins, torch.stack([right, down, forward], dim=2), torch.arange(2))


def whole(size: tuple[int, int]) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, *FRAME]]).repeat(2, 1), FRAME, size)


def slow_march(beams: Beams) -> torch.Tensor:
    """Every ray by itself, from the camera, by small steps until it is through; then halving."""
    end = torch.zeros_like(beams.directions[0])
    through = torch.zeros_like(end, dtype=torch.bool)
    start = end
    for _ in range(700):
        free = SURFACE.distance(beams.at(end), beams.frame)
        through |= (free <= 0) | (end >= FAR)
        if through.all():
            break
        step = torch.maximum(0.4 * free, 0.1 * beams.width * end)
        start = torch.where(through, start, end)
        end = torch.where(through, end, (end + step).clamp_max(FAR))
    for _ in range(25):
        middle = 0.5 * (start + end)
        inside = SURFACE.distance(beams.at(middle), beams.frame) <= 0
        start, end = torch.where(inside, start, middle), torch.where(inside, middle, end)
    return end


def test_beams_are_a_pinhole() -> None:
    windows = Windows(torch.tensor([[40.0, 30.0, 120.0, 90.0]] * 2), FRAME, (8, 6))
    beams = beams_of(eyes(), windows)
    focal = FRAME[0] / 2 / math.tan(FIELD / 2)
    for row in range(6):
        for column in range(8):
            x, y = 40 + 10 * (column + 0.5) - 160, 30 + 10 * (row + 0.5) - 128
            way = eyes().rotations[1] @ torch.tensor([x / focal, y / focal, 1.0])
            result = beams.directions[:, 1, row * 8 + column]
            torch.testing.assert_close(result, way / way.norm(), atol=1e-5, rtol=0)
    assert beams.width[0, 0].item() == pytest.approx(10 / focal)


def test_march_finds_what_a_slow_march_finds() -> None:
    windows = whole((96, 78))
    beams = beams_of(eyes(), windows)
    depth, expected = march_windows(SURFACE, eyes(), windows), slow_march(beams)
    off = (depth - expected).abs() / (expected * beams.width)
    assert off.median() < 0.1  # pixels
    assert (off > 1).float().mean() < 0.02  # rays that graze an edge
    assert (depth > 1.05 * expected).float().mean() < 0.004  # hardly any go through
    shares, same = (SURFACE.touch(beams.at(d), beams.frame).shares for d in (depth, expected))
    for share, other in zip(shares, same, strict=True):
        mask, truth = share > 0.5, other > 0.5
        assert (mask != truth).float().mean() < 0.004


def grown(mask: torch.Tensor) -> torch.Tensor:
    """Masks (2, 20 * 24) with the pixels around them."""
    grid = mask.view(2, 1, 20, 24).float()
    return torch.nn.functional.max_pool2d(grid, 3, stride=1, padding=1).flatten(1) > 0


def test_what_is_smaller_than_a_cell_is_found() -> None:
    """A polyp of a few pixels has the mask of a slow march but for its border."""
    windows = whole((24, 20))
    beams = beams_of(eyes(), windows)
    expected = SURFACE.touch(beams.at(slow_march(beams)), beams.frame).shares[0] > 0.5
    depth = march_windows(SURFACE, eyes(), windows)
    result = SURFACE.touch(beams.at(depth), beams.frame).shares[0] > 0.5
    assert expected.sum() > 10
    assert (result & ~grown(expected)).sum() == 0
    assert (~result & ~grown(~expected)).sum() == 0


@pytest.mark.parametrize("size", [(40, 32), (40, 31), (39, 32)])
def test_depths_do_not_depend_on_the_batch_or_the_tiles(size: tuple[int, int]) -> None:
    windows = whole(size)
    both = march_windows(SURFACE, eyes(), windows)
    for most in (1280, 500):
        assert torch.equal(march_windows(SURFACE, eyes(), windows, most), both)
    for frame in (0, 1):
        one = eyes().some(slice(frame, frame + 1))
        alone = march_windows(SURFACE, one, windows.some(np.array([frame])))
        assert torch.equal(alone[0], both[frame])


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what a GPU would have to be waited for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.__name__.split(".")[0]
        masked = name.startswith("index") and any(
            isinstance(one, torch.Tensor) and one.dtype == torch.bool
            for one in (args[1] if len(args) > 1 and isinstance(args[1], list) else [])
        )
        self.count += masked or name in {"nonzero", "_local_scalar_dense", "masked_select"}
        return func(*args, **(kwargs or {}))


def test_rays_settle_alike_however_seldom_a_gpu_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Depths are the same to the last bit; there is a wait a tile, and one a group of rounds."""
    assert sum(SETTLE_ROUNDS["cuda"]) == sum(SETTLE_ROUNDS["cpu"])
    found, waits = {}, {}
    for device in ("cpu", "cuda"):
        rounds = {"cpu": SETTLE_ROUNDS[device]}
        with monkeypatch.context() as patch, Waits() as waited:
            patch.setattr(march, "SETTLE_ROUNDS", rounds)
            found[device] = march_windows(SURFACE, eyes(), whole((96, 80)))
        waits[device] = waited.count
    assert torch.equal(found["cpu"], found["cuda"])
    assert waits["cuda"] <= 1 + len(SETTLE_ROUNDS["cuda"]) < waits["cpu"]
