import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.colon.polyp import (
    FORMS,
    Traits,
    draw_traits,
    map_directions,
    place_lump,
    surface_maps,
    wall_frame,
)
from polyplink.simulate.colon.surface import (
    MAP_EXTENT,
    MM_PER_UNIT,
    draw_colon,
    lump_distance,
    wall_distance,
)
from polyplink.simulate.colon.tissue import HABITS

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 17).map(float)
KINDS = st.sampled_from(sorted(HABITS))


def drawn(seed: int, size: float = 5.0, kind: str = "AD", difficulty: float = 0.5) -> Traits:
    return draw_traits(np.random.default_rng(seed), size, kind, difficulty)


@given(SEEDS, SIZES, KINDS, st.floats(0, 1))
def test_traits_are_in_their_ranges(seed: int, size: float, kind: str, difficulty: float) -> None:
    traits = drawn(seed, size, kind, difficulty)
    assert traits.form in FORMS.values()
    assert traits.size_mm == size
    assert traits.form.height[0] <= traits.height <= traits.form.height[1]
    assert 0.3 <= traits.narrow <= 1


@settings(max_examples=15, deadline=None)
@given(SEEDS, SIZES, KINDS)
def test_maps_are_finite_and_radii_positive(seed: int, size: float, kind: str) -> None:
    maps = surface_maps(np.random.default_rng(seed), drawn(seed, size, kind, 0.0))
    radius, pattern, patches, vessels, mucus = maps
    assert radius.min() > 0.3
    assert pattern.abs().max() <= 1 + 1e-5
    assert patches.min() >= 0
    assert min(vessels.min(), mucus.min()) >= 0
    assert max(vessels.max(), mucus.max()) <= 1.0001
    assert torch.isfinite(maps).all()


def test_map_directions_are_the_stereographic_ones() -> None:
    towards = map_directions()
    np.testing.assert_allclose(np.linalg.norm(towards, axis=0), 1)
    size = towards.shape[1]
    for row, column in ((0, 0), (10, 60), (size - 1, 3)):
        x, y, z = towards[:, row, column]
        place = [2 * MAP_EXTENT * k / (size - 1) - MAP_EXTENT for k in (column, row)]
        assert [x / (1 + z), y / (1 + z)] == pytest.approx(place)


def test_no_two_polyps_are_alike() -> None:
    traits = [drawn(seed) for seed in range(30)]
    assert len({t.tissue for t in traits}) == 30
    assert len({t.lobes for t in traits}) > 3
    first, second = (surface_maps(np.random.default_rng(seed), traits[0]) for seed in (0, 1))
    assert (first - second).abs().mean() > 0.05


def share_of(paris: str, size: float, kind: str = "AD") -> float:
    return float(np.mean([drawn(seed, size, kind).form.paris == paris for seed in range(400)]))


def test_forms_come_as_often_as_in_the_literature() -> None:
    assert share_of("Is", 3) > share_of("IIa", 3) > share_of("Isp", 3) > share_of("Ip", 3)
    assert share_of("Ip", 3) < 0.03 < 0.12 < share_of("Ip", 9)
    assert share_of("IIa", 3, "SSL") > share_of("IIa", 3) + 0.1


def test_difficulty_brings_polyps_closer_together() -> None:
    def deviation(difficulty: float) -> float:
        return float(np.std([drawn(s, difficulty=difficulty).tissue.hue for s in range(200)]))

    assert deviation(0.0) > 2 * deviation(1.0)


@given(SEEDS, st.floats(-5, 5), st.floats(0, 2 * math.pi))
def test_wall_frame_is_on_the_wall_and_right_handed(seed: int, z: float, angle: float) -> None:
    colon = draw_colon(np.random.default_rng(seed))
    point, axes = wall_frame(colon, z, angle)
    assert wall_distance(colon, point[:, None]).item() == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-5)
    assert torch.linalg.det(axes).item() == pytest.approx(1, abs=1e-5)
    assert wall_distance(colon, (point + 0.05 * axes[:, 2])[:, None]).item() > 0


@pytest.mark.parametrize("paris", sorted(FORMS))
def test_a_placed_lump_has_its_size_and_stands_in_the_lumen(paris: str) -> None:
    colon = draw_colon(np.random.default_rng(2))
    traits = next(t for t in (drawn(seed, 9.0) for seed in range(400)) if t.form.paris == paris)
    point, axes = wall_frame(colon, 1.0, 2.0)
    lump = place_lump(traits, surface_maps(np.random.default_rng(0), traits), point, axes)
    assert float(lump.radii[0]) * 2 * MM_PER_UNIT == pytest.approx(9.0)
    np.testing.assert_allclose(lump.axes.T @ lump.axes, np.eye(3), atol=1e-5)
    assert lump_distance(lump, lump.centre[:, None]).item() < 0
    top = lump.centre + 0.9 * lump.radii[2] * lump.axes[:, 2]
    assert wall_distance(colon, top[:, None]).item() > 0
