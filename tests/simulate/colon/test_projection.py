import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
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


def outline_points(points_at_rest: np.ndarray) -> np.ndarray:
    """Points (n, 3) at rest in the form that an outline stores, for a straight centre line."""
    angle = RATE * points_at_rest[:, 2]
    line = np.tile(LINE, (len(points_at_rest), 1))
    return np.column_stack(
        [line, points_at_rest[:, :2] - LINE, points_at_rest[:, 2], np.sin(angle), np.cos(angle)]
    )


def wave_points(outline: Outline, phase: float) -> np.ndarray:
    """Points (n, 3) of an outline at a phase of the wave."""
    points = outline.grid.reshape(-1, 7)
    at = np.column_stack([points[:, :2] + points[:, 2:4], points[:, 4]])
    g = 1 + WAVE * np.sin(RATE * at[:, 2] - phase)
    at[:, :2] = LINE + (at[:, :2] - LINE) * g[:, None]
    return at


def cap(rng: np.random.Generator, offset: np.ndarray, rings: int = 20, around: int = 36) -> Outline:
    """The outline of a lumpy cap, with all points in its hull."""
    tilt = np.linspace(0, 2.6, rings)[:, None]
    turn = np.linspace(0, 2 * np.pi, around, endpoint=False)
    radius = 0.3 * (1 + 0.2 * np.sin(3 * turn + rng.uniform(0, 6)) * np.sin(2 * tilt))
    directions = [np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt) + 0 * turn]
    points = (radius * np.stack(directions)).reshape(3, -1).T @ Rotation.random(rng=rng).as_matrix()
    radius_of_ball = 1.3 * np.linalg.norm(points, axis=1).max()
    ball = np.append(outline_points(offset[None])[0], radius_of_ball)
    grid = outline_points(points + offset).reshape(rings, around, 7)
    return Outline(grid, np.arange(rings * around), ball)


def triangles(rings: int, around: int) -> np.ndarray:
    """Corner indices (m, 3) of two triangles per cell of a grid that is closed around."""
    corners = []
    for ring, turn in itertools.product(range(rings - 1), range(around)):
        a, b = ring * around + turn, ring * around + (turn + 1) % around
        corners += [(a, a + around, b), (b, a + around, b + around)]
    return np.array(corners)


def clip(corners: np.ndarray, planes: np.ndarray) -> np.ndarray:
    """Clip a triangle by all planes; the corners of the remaining polygon."""
    polygon = list(corners)
    for plane in planes:
        remaining = []
        for first, second in zip(polygon, [*polygon[1:], *polygon[:1]], strict=True):
            a, b = first @ plane, second @ plane
            if a >= 0:
                remaining.append(first)
            if (a >= 0) != (b >= 0):
                remaining.append(first + (second - first) * a / (a - b))
        polygon = remaining
    return np.array(polygon).reshape(-1, 3)


def naive(outline: Outline, lens: Lens, phase: float) -> np.ndarray | None:
    """The box of all triangles, each clipped by the sides of the lens."""
    points = wave_points(outline, phase)
    corners = triangles(*outline.grid.shape[:2])
    clipped = np.concatenate([clip(points[corner], lens.planes) for corner in corners])
    clipped = clipped[clipped[:, 2] > 1e-9]
    if not len(clipped):
        return None
    u, v = (
        clipped[:, 0] / clipped[:, 2] * lens.across + 0.5,
        clipped[:, 1] / clipped[:, 2] * lens.down + 0.5,
    )
    return np.array([u.min(), v.min(), u.max(), v.max()])


def projected_box(outline: Outline, lens: Lens, phase: float) -> np.ndarray:
    cameras = shots(np.zeros((1, 3)), np.eye(3)[None], WAVE, np.array([phase]))
    return np.asarray(project(Outlines.of([outline]), cameras, lens, ONE, ONE)[0])


@given(
    st.integers(0, 2**31),
    st.sampled_from(sorted(LENSES)),
    st.tuples(st.floats(-1.2, 1.2), st.floats(-1.0, 1.0), st.floats(-2, 2)),
    st.floats(0, 6.3),
    st.sampled_from([(6, 10), (5, 9)]),
)
def test_projected_boxes_equal_those_of_clipped_triangles(
    seed: int, name: str, offset: tuple[float, float, float], phase: float, size: tuple[int, int]
) -> None:
    """For every lens, and also with the camera inside the outline."""
    outline = cap(np.random.default_rng(seed), np.array(offset), *size)
    lens = Lens.of(LENSES[name], 125, 100)
    box, expected = projected_box(outline, lens, phase), naive(outline, lens, phase)
    if expected is None:
        assert np.isnan(box).all()
    else:
        np.testing.assert_allclose(box, expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("brand", sorted(LENS_CORNERS))
def test_a_lens_is_a_convex_polygon_inside_the_frame(brand: str) -> None:
    corners = np.array(LENS_CORNERS[brand])
    sides = np.roll(corners, -1, 0) - corners
    next_sides = np.roll(sides, -1, 0)
    assert (sides[:, 0] * next_sides[:, 1] - sides[:, 1] * next_sides[:, 0] > 0).all()
    assert corners.min(0).tolist() == [0, 0]
    assert corners.max(0).tolist() == [1, 1]
