import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate.picture.patient import draw_colon
from polyplink.simulate.picture.polyp import (
    FORMS,
    draw_traits,
    map_directions,
    place_lump,
    surface_maps,
    wall_frame,
)
from polyplink.simulate.picture.scene import MAP_EXTENT, MM_PER_UNIT, lump_distance, wall_distance

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_traits_are_in_their_ranges(seed: int) -> None:
    traits = draw_traits(np.random.default_rng(seed))
    assert traits.form in FORMS
    assert 4.5 <= traits.size_mm <= 10
    assert traits.form.height[0] <= traits.height <= traits.form.height[1]
    assert traits.stripes + traits.pits + traits.bumps == pytest.approx(1)


@given(SEEDS)
def test_maps_are_finite_and_radii_positive(seed: int) -> None:
    rng = np.random.default_rng(seed)
    radius, pattern, patches = surface_maps(rng, draw_traits(rng))
    assert radius.min() > 0.3
    assert pattern.abs().max() <= 1 + 1e-5
    assert torch.isfinite(patches).all()


def test_map_directions_are_the_stereographic_ones() -> None:
    towards = map_directions()
    np.testing.assert_allclose(np.linalg.norm(towards, axis=0), 1)
    size = towards.shape[1]
    for row, column in ((0, 0), (10, 60), (size - 1, 3)):
        x, y, z = towards[:, row, column]
        place = [2 * MAP_EXTENT * k / (size - 1) - MAP_EXTENT for k in (column, row)]
        assert [x / (1 + z), y / (1 + z)] == pytest.approx(place)


def test_no_two_polyps_are_alike() -> None:
    rng = np.random.default_rng(0)
    traits = [draw_traits(rng) for _ in range(30)]
    assert len({t.colour for t in traits}) == 30
    assert {t.form.paris for t in traits} == {"Is", "Isp", "IIa"}
    assert len({t.lobes for t in traits}) > 3


@given(SEEDS, st.floats(-5, 5), st.floats(0, 2 * math.pi))
def test_wall_frame_is_on_the_wall_and_right_handed(seed: int, z: float, angle: float) -> None:
    colon = draw_colon(np.random.default_rng(seed))
    point, axes = wall_frame(colon, z, angle)
    assert wall_distance(colon, point[:, None]).item() == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-5)
    assert torch.linalg.det(axes).item() == pytest.approx(1, abs=1e-5)
    assert wall_distance(colon, (point + 0.05 * axes[:, 2])[:, None]).item() > 0


def test_a_placed_lump_has_its_size_and_stands_in_the_lumen() -> None:
    rng = np.random.default_rng(2)
    colon, traits = draw_colon(rng), draw_traits(rng)
    point, axes = wall_frame(colon, 1.0, 2.0)
    lump = place_lump(traits, surface_maps(rng, traits), point, axes)
    assert float(lump.radii[0]) * 2 * MM_PER_UNIT == pytest.approx(traits.size_mm)
    np.testing.assert_allclose(lump.axes.T @ lump.axes, np.eye(3), atol=1e-5)
    assert lump_distance(lump, lump.centre[:, None]).item() < 0
    top = lump.centre + 0.9 * lump.radii[2] * lump.axes[:, 2]
    assert wall_distance(colon, top[:, None]).item() > 0
