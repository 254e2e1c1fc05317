import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.colon.projection import LENS_CORNERS
from polyplink.simulate.picture.lens import inside_distance, lens_mask
from polyplink.simulate.picture.window import Windows

BRANDS = sorted(LENS_CORNERS)
FRAMES = {"Olympus": (338, 270), "Fujifilm": (312, 240)}


def whole(frame: tuple[int, int], size: tuple[int, int]) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, *map(float, frame)]]), frame, size)


def cross(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


@pytest.mark.parametrize("brand", BRANDS)
def test_the_view_is_a_convex_polygon_inside_the_frame(brand: str) -> None:
    corners = LENS_CORNERS[brand]
    turns = [
        cross(a, b, c)
        for a, b, c in zip(
            corners, corners[1:] + corners[:1], corners[2:] + corners[:2], strict=True
        )
    ]
    assert all(turn > 0 for turn in turns)
    assert all(0 <= value <= 1 for corner in corners for value in corner)
    assert {min(side) for side in zip(*corners, strict=True)} == {0.0}
    assert {max(side) for side in zip(*corners, strict=True)} == {1.0}


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


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(BRANDS),
    st.integers(0, 200),
    st.integers(0, 150),
    st.integers(8, 100),
    st.integers(8, 80),
)
def test_a_window_is_masked_as_its_frame(brand: str, x: int, y: int, w: int, h: int) -> None:
    frame = FRAMES[brand]
    all_of_it = whole(frame, frame)
    part = Windows(torch.tensor([[x, y, x + w, y + h]]).float(), frame, (w, h))
    crop = (slice(None), slice(y, y + h), slice(x, x + w))
    expected = inside_distance(brand, all_of_it)[crop]
    torch.testing.assert_close(inside_distance(brand, part), expected, atol=2e-4, rtol=0)
    torch.testing.assert_close(
        lens_mask(brand, part)[0], lens_mask(brand, all_of_it)[0][crop], atol=2e-4, rtol=0
    )
