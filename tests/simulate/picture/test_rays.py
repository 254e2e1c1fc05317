"""Windows, the mask of a lens, and the ray march against a slow one."""

import functools
import itertools

import numpy as np
import pytest
import torch

from polyplink_lab.simulate.colon.projection import LENS_CORNERS, Lens
from polyplink_lab.simulate.picture import rays
from polyplink_lab.simulate.picture.rays import (
    FAR,
    SETTLE_ROUNDS,
    Beams,
    Cameras,
    Windows,
    beams_of,
    in_windows,
    lens_mask,
    march_windows,
)
from tests.simulate.scenes import LUMPS, CountGpuWaits, batch, wall_point

FRAME = (320, 256)
SURFACE = batch()


@functools.cache
def cameras() -> Cameras:
    """Two cameras on the centre line: one looks at a polyp, one along the lumen."""
    origins = torch.tensor([wall_point(z, 0.0) for z in (-0.3, 0.5)])
    origins[:, 0] -= 1
    forward = torch.stack([LUMPS[0].centre - origins[0], torch.tensor([0.1, -0.2, 1.0])])
    forward = torch.nn.functional.normalize(forward, dim=1)
    right = torch.linalg.cross(forward, torch.tensor([[0.1, 1.0, 0.2]]).expand(2, 3))
    right = torch.nn.functional.normalize(right, dim=1)
    down = torch.linalg.cross(forward, right)
    return Cameras(origins, torch.stack([right, down, forward], dim=2), torch.arange(2))


def full_frame(size: tuple[int, int]) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, *FRAME]]).repeat(2, 1), FRAME, size)


def slow_march(beams: Beams) -> torch.Tensor:
    """March each ray in small steps until it is through the surface, then bisect."""
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


def test_the_march_equals_a_slow_march() -> None:
    windows = full_frame((96, 78))
    beams = beams_of(cameras(), windows)
    depth, expected = march_windows(SURFACE, cameras(), windows), slow_march(beams)
    error = (depth - expected).abs() / (expected * beams.width)
    assert error.median() < 0.1  # pixels
    assert (error > 1).float().mean() < 0.02  # rays that graze an edge
    assert (depth > 1.05 * expected).float().mean() < 0.004  # almost none pass through the surface
    shares, expected_shares = (
        SURFACE.sample(beams.at(d), beams.frame).shares for d in (depth, expected)
    )
    for share, other in zip(shares, expected_shares, strict=True):
        mask, truth = share > 0.5, other > 0.5
        assert (mask != truth).float().mean() < 0.004


def dilated(mask: torch.Tensor) -> torch.Tensor:
    """Masks (2, 20 * 24), dilated by one pixel."""
    grid = mask.view(2, 1, 20, 24).float()
    return torch.nn.functional.max_pool2d(grid, 3, stride=1, padding=1).flatten(1) > 0


def test_the_march_hits_polyps_smaller_than_a_cell() -> None:
    """The mask of a polyp of a few pixels equals that of a slow march except at its border."""
    windows = full_frame((24, 20))
    beams = beams_of(cameras(), windows)
    expected = SURFACE.sample(beams.at(slow_march(beams)), beams.frame).shares[0] > 0.5
    depth = march_windows(SURFACE, cameras(), windows)
    result = SURFACE.sample(beams.at(depth), beams.frame).shares[0] > 0.5
    assert expected.sum() > 10
    assert (result & ~dilated(expected)).sum() == 0
    assert (~result & ~dilated(~expected)).sum() == 0


def test_depths_do_not_depend_on_the_rounds_between_gpu_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Depths are equal bit for bit, with one wait per tile and one per group of rounds."""
    assert sum(SETTLE_ROUNDS["cuda"]) == sum(SETTLE_ROUNDS["cpu"])
    depths, waits = {}, {}
    for device in ("cpu", "cuda"):
        rounds = {"cpu": SETTLE_ROUNDS[device]}
        with monkeypatch.context() as patch, CountGpuWaits() as counter:
            patch.setattr(rays, "SETTLE_ROUNDS", rounds)
            depths[device] = march_windows(SURFACE, cameras(), full_frame((96, 80)))
        waits[device] = counter.count
    assert torch.equal(depths["cpu"], depths["cuda"])
    assert waits["cuda"] <= 1 + len(SETTLE_ROUNDS["cuda"]) < waits["cpu"]


SMALL = (100, 80)


def test_window_coordinates_are_shares_of_the_frame_width() -> None:
    windows = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), SMALL, SMALL)
    assert windows.x[0].tolist() == pytest.approx([0.005 + 0.01 * i for i in range(100)])
    assert windows.y[0].tolist() == pytest.approx([0.005 + 0.01 * i for i in range(80)])
    part = Windows(torch.tensor([[20.0, 30.0, 60.0, 50.0]]), SMALL, (40, 20))
    torch.testing.assert_close(part.x, windows.x[:, 20:60])
    torch.testing.assert_close(part.y, windows.y[:, 30:50])


def test_spheres_behind_beside_and_far_are_outside_the_window() -> None:
    windows = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), SMALL, (8, 8))
    centres = np.array([[0, 0, 2.0], [0, 0, -2.0], [4.0, 0, 1.0], [0, 0, 20.0]])
    visible = in_windows(windows, np.zeros((1, 3)), np.eye(3)[None], centres, np.full(4, 0.3))
    assert visible.tolist() == [[True, False, False, False]]


BRANDS = sorted(LENS_CORNERS)
FRAMES = {"Olympus": (338, 270), "Fujifilm": (312, 240)}


def cross(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def mask(brand: str, size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Light and mask (h, w) of a full frame drawn at a size."""
    frame = FRAMES[brand]
    windows = Windows(torch.tensor([[0.0, 0.0, *map(float, frame)]]), frame, size)
    light, inside = lens_mask(Lens.of(LENS_CORNERS[brand], *frame), windows)
    return light[0], inside[0]


@pytest.mark.parametrize("brand", BRANDS)
def test_the_lens_mask_equals_its_polygon(brand: str) -> None:
    """A pixel is in the mask exactly if its centre is inside the polygon."""
    _, inside = mask(brand, (60, 48))
    corners = LENS_CORNERS[brand]
    for row, column in itertools.product(range(48), range(60)):
        place = ((column + 0.5) / 60, (row + 0.5) / 48)
        sides = [
            cross(a, b, place) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)
        ]
        if min(abs(side) for side in sides) > 1e-5:
            assert bool(inside[row, column]) == all(side > 0 for side in sides)
