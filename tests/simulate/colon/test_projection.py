import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.transform import Rotation

from polyplink_lab.simulate.colon.projection import (
    LENS_CORNERS,
    Lens,
    Outline,
    Outlines,
    project,
    shots,
)

LENSES = {
    "whole": ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)),
    "cut": (
        (0.2, 0.05),
        (0.8, 0.05),
        (0.95, 0.3),
        (0.95, 0.7),
        (0.8, 0.95),
        (0.2, 0.95),
        (0.05, 0.7),
        (0.05, 0.3),
    ),
    **LENS_CORNERS,
}
WAVE, RATE, LINE = 0.06, 1.3, np.array([0.1, -0.05])
ONE = np.array([0])


def carried(at: np.ndarray) -> np.ndarray:
    """Points (n, 3) at rest as an outline keeps them, about a straight centre line."""
    angle = RATE * at[:, 2]
    line = np.tile(LINE, (len(at), 1))
    return np.column_stack([line, at[:, :2] - LINE, at[:, 2], np.sin(angle), np.cos(angle)])


def moved(outline: Outline, phase: float) -> np.ndarray:
    """Where a wave carries the points (n, 3) of an outline."""
    points = outline.grid.reshape(-1, 7)
    at = np.column_stack([points[:, :2] + points[:, 2:4], points[:, 4]])
    g = 1 + WAVE * np.sin(RATE * at[:, 2] - phase)
    at[:, :2] = LINE + (at[:, :2] - LINE) * g[:, None]
    return at


def cap(rng: np.random.Generator, offset: np.ndarray, rings: int = 20, around: int = 36) -> Outline:
    """A lumpy cap; every point counts as one of its hull."""
    tilt = np.linspace(0, 2.6, rings)[:, None]
    turn = np.linspace(0, 2 * np.pi, around, endpoint=False)
    radius = 0.3 * (1 + 0.2 * np.sin(3 * turn + rng.uniform(0, 6)) * np.sin(2 * tilt))
    ways = [np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt) + 0 * turn]
    points = (radius * np.stack(ways)).reshape(3, -1).T @ Rotation.random(rng=rng).as_matrix()
    reach = 1.3 * np.linalg.norm(points, axis=1).max()
    ball = np.append(carried(offset[None])[0], reach)
    grid = carried(points + offset).reshape(rings, around, 7)
    return Outline(grid, np.arange(rings * around), ball)


def triangles(rings: int, around: int) -> np.ndarray:
    """Corners (m, 3) of a grid's cells, two triangles each, that closes around."""
    found = []
    for ring, turn in itertools.product(range(rings - 1), range(around)):
        a, b = ring * around + turn, ring * around + (turn + 1) % around
        found += [(a, a + around, b), (b, a + around, b + around)]
    return np.array(found)


def clipped(corners: np.ndarray, planes: np.ndarray) -> np.ndarray:
    """What is left of a triangle inside of all planes, corner by corner."""
    polygon = list(corners)
    for plane in planes:
        kept = []
        for first, second in zip(polygon, [*polygon[1:], *polygon[:1]], strict=True):
            a, b = first @ plane, second @ plane
            if a >= 0:
                kept.append(first)
            if (a >= 0) != (b >= 0):
                kept.append(first + (second - first) * a / (a - b))
        polygon = kept
    return np.array(polygon).reshape(-1, 3)


def naive(outline: Outline, lens: Lens, phase: float) -> np.ndarray | None:
    """The box of all triangles, each clipped by all sides of the lens."""
    seen = moved(outline, phase)
    corners = triangles(*outline.grid.shape[:2])
    left = np.concatenate([clipped(seen[corner], lens.planes) for corner in corners])
    left = left[left[:, 2] > 1e-9]
    if not len(left):
        return None
    u, v = left[:, 0] / left[:, 2] * lens.across + 0.5, left[:, 1] / left[:, 2] * lens.down + 0.5
    return np.array([u.min(), v.min(), u.max(), v.max()])


def found(outline: Outline, lens: Lens, phase: float) -> np.ndarray:
    cameras = shots(np.zeros((1, 3)), np.eye(3)[None], WAVE, np.array([phase]))
    return np.asarray(project(Outlines.of([outline]), cameras, lens, ONE, ONE)[0])


@settings(max_examples=40)
@given(
    st.integers(0, 2**31),
    st.sampled_from(sorted(LENSES)),
    st.tuples(st.floats(-1.2, 1.2), st.floats(-1.0, 1.0), st.floats(-2, 2)),
    st.floats(0, 6.3),
    st.sampled_from([(20, 36), (10, 24), (8, 15)]),
)
def test_boxes_are_those_of_all_triangles_clipped(
    seed: int,
    name: str,
    offset: tuple[float, float, float],
    phase: float,
    size: tuple[int, int],
) -> None:
    """However much the lens shows, and whatever the camera stands in."""
    outline = cap(np.random.default_rng(seed), np.array(offset), *size)
    lens = Lens.of(LENSES[name], 125, 100)
    box, expected = found(outline, lens, phase), naive(outline, lens, phase)
    if expected is None:
        assert np.isnan(box).all()
    else:
        np.testing.assert_allclose(box, expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("brand", sorted(LENS_CORNERS))
def test_a_lens_is_a_convex_polygon_inside_the_frame(brand: str) -> None:
    corners = np.array(LENS_CORNERS[brand])
    sides = np.roll(corners, -1, 0) - corners
    after = np.roll(sides, -1, 0)
    assert (sides[:, 0] * after[:, 1] - sides[:, 1] * after[:, 0] > 0).all()
    assert corners.min(0).tolist() == [0, 0]
    assert corners.max(0).tolist() == [1, 1]
