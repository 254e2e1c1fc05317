"""Windows, what a lens shows of them, and the march beside a slow one."""

import functools
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from polyplink_lab.simulate.colon.projection import FOCAL, LENS_CORNERS, Lens
from polyplink_lab.simulate.picture import rays
from polyplink_lab.simulate.picture.rays import (
    FAR,
    SETTLE_ROUNDS,
    Beams,
    Eyes,
    Windows,
    beams_of,
    in_windows,
    lens_mask,
    march_windows,
)
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
        one = Eyes(*(part[frame : frame + 1] for part in vars(eyes()).values()))
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
            patch.setattr(rays, "SETTLE_ROUNDS", rounds)
            found[device] = march_windows(SURFACE, eyes(), whole((96, 80)))
        waits[device] = waited.count
    assert torch.equal(found["cpu"], found["cuda"])
    assert waits["cuda"] <= 1 + len(SETTLE_ROUNDS["cuda"]) < waits["cpu"]


SMALL = (100, 80)


def test_places_are_shares_of_the_frames_width_in_every_window() -> None:
    whole = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), SMALL, SMALL)
    assert whole.x[0].tolist() == pytest.approx([0.005 + 0.01 * i for i in range(100)])
    assert whole.y[0].tolist() == pytest.approx([0.005 + 0.01 * i for i in range(80)])
    part = Windows(torch.tensor([[20.0, 30.0, 60.0, 50.0]]), SMALL, (40, 20))
    torch.testing.assert_close(part.x, whole.x[:, 20:60])
    torch.testing.assert_close(part.y, whole.y[:, 30:50])


EDGE = st.floats(-50, 150, width=32)


def naive(edges: tuple[float, float, float, float], centre: np.ndarray, radius: float) -> bool:
    """Whether one of many rays through the window comes near enough to the centre."""
    left, top, right, bottom = edges
    x, y = np.meshgrid(np.linspace(left, right, 30), np.linspace(top, bottom, 30))
    ways = np.stack([(x - 50) / 100 / FOCAL, (y - 40) / 100 / FOCAL, np.ones_like(x)], axis=-1)
    ways = (ways / np.linalg.norm(ways, axis=-1, keepdims=True)).reshape(-1, 3)
    along = np.clip(ways @ centre, 0, 9)
    return bool((np.linalg.norm(along[:, None] * ways - centre, axis=1) < radius).any())


@given(
    st.tuples(EDGE, EDGE, st.floats(5, 60), st.floats(5, 60)),
    st.tuples(st.floats(-4, 4), st.floats(-4, 4), st.floats(-3, 8)),
    st.floats(0.05, 1),
)
def test_nothing_that_a_ray_meets_is_left_out(
    place: tuple[float, float, float, float], centre: tuple[float, float, float], radius: float
) -> None:
    edges = (place[0], place[1], place[0] + place[2], place[1] + place[3])
    windows = Windows(torch.tensor([edges]), SMALL, (8, 8))
    shown = in_windows(
        windows, np.zeros((1, 3)), np.eye(3)[None], np.array([centre]), np.array([radius])
    )
    if naive(edges, np.array(centre), radius):
        assert shown[0, 0]


def test_what_is_behind_or_beside_is_left_out() -> None:
    windows = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), SMALL, (8, 8))
    centres = np.array([[0, 0, 2.0], [0, 0, -2.0], [4.0, 0, 1.0], [0, 0, 20.0]])
    shown = in_windows(windows, np.zeros((1, 3)), np.eye(3)[None], centres, np.full(4, 0.3))
    assert shown.tolist() == [[True, False, False, False]]


BRANDS = sorted(LENS_CORNERS)
FRAMES = {"Olympus": (338, 270), "Fujifilm": (312, 240)}


def cross(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def mask(brand: str, size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The light and the mask (h, w) of a whole frame drawn at a size."""
    frame = FRAMES[brand]
    whole = Windows(torch.tensor([[0.0, 0.0, *map(float, frame)]]), frame, size)
    light, inside = lens_mask(Lens.of(LENS_CORNERS[brand], *frame), whole)
    return light[0], inside[0]


@pytest.mark.parametrize("brand", BRANDS)
def test_the_mask_is_the_polygon(brand: str) -> None:
    """A pixel's middle is inside by the mask where it is inside by the polygon's corners."""
    _, inside = mask(brand, (60, 48))
    corners = LENS_CORNERS[brand]
    for row, column in itertools.product(range(48), range(60)):
        place = ((column + 0.5) / 60, (row + 0.5) / 48)
        sides = [
            cross(a, b, place) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)
        ]
        if min(abs(side) for side in sides) > 1e-5:
            assert bool(inside[row, column]) == all(side > 0 for side in sides)
