import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from polyplink.simulate.colon.projection import FOCAL, Lens, Outline, Outlines, project, shots

SQUARE = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
CUT = (
    (0.2, 0.0),
    (0.8, 0.0),
    (1.0, 0.3),
    (1.0, 0.7),
    (0.8, 1.0),
    (0.2, 1.0),
    (0.0, 0.7),
    (0.0, 0.3),
)


def body_of(points: np.ndarray, offset: np.ndarray) -> Outline:
    """A convex body that no wave moves, at an offset."""
    hull = ConvexHull(points)
    zeros = np.zeros((len(points), 1))
    at = points + offset
    seven = np.concatenate([zeros, zeros, at, zeros, zeros + 1], axis=1)
    ball = np.concatenate([[0, 0], offset, [0, 1, np.linalg.norm(points, axis=1).max()]])
    return Outline(seven, hull.simplices.astype(np.int64), hull.vertices.astype(np.int64), ball)


def dense(points: np.ndarray, body: Outline) -> np.ndarray:
    """Many points of a body's surface."""
    share = np.linspace(0, 1, 40)
    a, b = (part.ravel() for part in np.meshgrid(share, share))
    a, b = a[a + b <= 1], b[a + b <= 1]
    corners = points[body.triangles]  # (m, 3, 3)
    return np.asarray(
        np.einsum("k,md->mkd", 1 - a - b, corners[:, 0])
        + np.einsum("k,md->mkd", a, corners[:, 1])
        + np.einsum("k,md->mkd", b, corners[:, 2])
    ).reshape(-1, 3)


def naive(points: np.ndarray, corners: tuple[tuple[float, float], ...]) -> np.ndarray | None:
    """The box of those of many points in camera coordinates that a lens shows."""
    points = points[points[:, 2] > 1e-6]
    u, v = 0.5 + FOCAL * (points[:, :2] / points[:, 2:]).T * np.array([[1], [1.25]])
    inside = np.ones(len(u), bool)
    for (x0, y0), (x1, y1) in zip(corners, (*corners[1:], corners[0]), strict=True):
        inside &= (x1 - x0) * (v - y0) - (y1 - y0) * (u - x0) >= 0
    u, v = u[inside], v[inside]
    return np.array([u.min(), v.min(), u.max(), v.max()]) if len(u) else None


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**31),
    st.sampled_from([SQUARE, CUT]),
    st.floats(-1.6, 1.6),
    st.floats(-1.2, 1.2),
    st.floats(-0.5, 3),
)
def test_boxes_are_those_of_many_surface_points(
    seed: int, corners: tuple[tuple[float, float], ...], x: float, y: float, z: float
) -> None:
    points = np.random.default_rng(seed).normal(0, 0.25, (12, 3))
    body = body_of(points, np.array([x, y, z]))
    cameras = shots(np.zeros((1, 3)), np.eye(3)[None], 0.0, np.zeros(1))
    found = project(
        Outlines.of([body]), cameras, Lens.of(corners, 125, 100), np.array([0]), np.array([0])
    )[0]
    expected = naive(dense(points + np.array([x, y, z]), body), corners)
    if expected is None:
        assert np.isnan(found).any() or np.prod(found[2:] - found[:2]) < 0.01
    else:
        # A thin corner that no point fell on is all that may be missing.
        assert np.all(found[:2] <= expected[:2] + 1e-9)
        assert np.all(found[2:] >= expected[2:] - 1e-9)
        depth = dense(points + np.array([x, y, z]), body)[:, 2].min()
        if depth > 0.3:
            np.testing.assert_allclose(found, expected, atol=0.06)


def test_cameras_turn_and_waves_move() -> None:
    """A point off the axis is where a camera and a wave worked out by hand show it."""
    turn = Rotation.from_rotvec([0.1, -0.2, 0.3]).as_matrix()
    position, phase, wave, rate = np.array([0.1, 0.2, -1.0]), 0.7, 0.1, 1.3
    corners = np.array([[0.0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]])
    corners += np.array([0.2, 0.3, 0.5])
    body = body_of(corners, np.zeros(3))
    angle = rate * corners[:, 2]
    line = np.array([0.05, -0.02])
    seven = np.column_stack(
        [np.tile(line, (4, 1)), corners[:, :2] - line, corners[:, 2], np.sin(angle), np.cos(angle)]
    )
    moved = corners.copy()
    g = 1 + wave * np.sin(angle - phase)
    moved[:, :2] = line + (corners[:, :2] - line) * g[:, None]
    body = Outline(seven, body.triangles, body.hull, np.append(seven[0], 1.0))
    cameras = shots(position[None], turn[None], wave, np.array([phase]))
    found = project(
        Outlines.of([body]), cameras, Lens.of(SQUARE, 125, 100), np.array([0]), np.array([0])
    )[0]
    expected = naive((moved - position) @ turn, SQUARE)
    assert expected is not None
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("z", [-2.0, -0.6])
def test_nothing_is_seen_behind_the_camera(z: float) -> None:
    points = np.random.default_rng(0).normal(0, 0.1, (12, 3))
    body = body_of(points, np.array([0.0, 0.0, z]))
    cameras = shots(np.zeros((1, 3)), np.eye(3)[None], 0.0, np.zeros(1))
    lens = Lens.of(CUT, 125, 100)
    assert np.isnan(project(Outlines.of([body]), cameras, lens, np.array([0]), np.array([0]))).all()


def test_bodies_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    bodies = [body_of(rng.normal(0, 0.1, (12, 3)), np.array([x, 0.0, 2.0])) for x in (-0.5, 0.6)]
    cameras = shots(np.zeros((1, 3)), np.eye(3)[None], 0.0, np.zeros(1))
    lens, ask = Lens.of(SQUARE, 125, 100), np.array([0, 0])
    both = project(Outlines.of(bodies), cameras, lens, ask, np.array([1, 0]))
    alone = [project(Outlines.of([b]), cameras, lens, ask[:1], ask[:1])[0] for b in bodies]
    np.testing.assert_array_equal(both, alone[::-1])
    assert both[1, 2] < both[0, 0]
