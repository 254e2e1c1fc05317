import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.colon.projection import FOCAL, LENS_CORNERS
from polyplink.simulate.picture.windows import (
    Windows,
    in_windows,
    lens_mask,
)

FRAME = (100, 80)


def test_places_are_shares_of_the_frames_width() -> None:
    whole = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), FRAME, (10, 8))
    assert whole.x[0].tolist() == pytest.approx([0.05 + 0.1 * i for i in range(10)])
    assert whole.y[0].tolist() == pytest.approx([0.05 + 0.1 * i for i in range(8)])
    assert whole.scale.tolist() == [10.0]


def test_a_window_is_where_it_was_cut() -> None:
    whole = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), FRAME, FRAME)
    part = Windows(torch.tensor([[20.0, 30.0, 60.0, 50.0]]), FRAME, (40, 20))
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


@settings(deadline=None)
@given(
    st.tuples(EDGE, EDGE, st.floats(5, 60), st.floats(5, 60)),
    st.tuples(st.floats(-4, 4), st.floats(-4, 4), st.floats(-3, 8)),
    st.floats(0.05, 1),
)
def test_nothing_that_a_ray_meets_is_left_out(
    place: tuple[float, float, float, float], centre: tuple[float, float, float], radius: float
) -> None:
    edges = (place[0], place[1], place[0] + place[2], place[1] + place[3])
    windows = Windows(torch.tensor([edges]), FRAME, (8, 8))
    shown = in_windows(
        windows, np.zeros((1, 3)), np.eye(3)[None], np.array([centre]), np.array([radius])
    )
    if naive(edges, np.array(centre), radius):
        assert shown[0, 0]


def test_what_is_behind_or_beside_is_left_out() -> None:
    windows = Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]), FRAME, (8, 8))
    centres = np.array([[0, 0, 2.0], [0, 0, -2.0], [4.0, 0, 1.0], [0, 0, 20.0]])
    shown = in_windows(windows, np.zeros((1, 3)), np.eye(3)[None], centres, np.full(4, 0.3))
    assert shown.tolist() == [[True, False, False, False]]


BRANDS = sorted(LENS_CORNERS)
FRAMES = {"Olympus": (338, 270), "Fujifilm": (312, 240)}


def cross(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def whole(frame: tuple[int, int], size: tuple[int, int]) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, *map(float, frame)]]), frame, size)


@pytest.mark.parametrize("brand", BRANDS)
def test_the_mask_is_the_polygon(brand: str) -> None:
    """A pixel's middle is inside by the mask where it is inside by the polygon's corners."""
    frame = FRAMES[brand]
    _, inside = lens_mask(brand, whole(frame, (60, 48)))
    corners = LENS_CORNERS[brand]
    for row, column in itertools.product(range(48), range(60)):
        place = ((column + 0.5) / 60, (row + 0.5) / 48)
        sides = [
            cross(a, b, place) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)
        ]
        if min(abs(side) for side in sides) > 1e-5:
            assert bool(inside[0, row, column]) == all(side > 0 for side in sides)


@pytest.mark.parametrize("brand", BRANDS)
def test_light_falls_from_the_middle_to_nothing(brand: str) -> None:
    light, inside = lens_mask(brand, whole(FRAMES[brand], (61, 49)))
    assert light.argmax() == 24 * 61 + 30
    assert light[0, 24, 30].item() == pytest.approx(1, abs=1e-3)
    assert light[0, 0, 0].item() == 0
    assert light[inside].min() > 0.2
    assert light.max() <= 1
