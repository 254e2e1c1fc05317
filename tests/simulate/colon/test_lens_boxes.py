import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from polyplink.simulate.colon.outline import _grid_triangles, _hull
from polyplink.simulate.colon.projection import Lens, Outline, Outlines, project, shots

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
}
ROWS, COLUMNS = 20, 36
WAVE = 0.06


def body_of(rng: np.random.Generator, offset: np.ndarray) -> Outline:
    """A lumpy cap of many triangles, which a wave carries."""
    tilt = np.linspace(0, 2.6, ROWS)[:, None]
    turn = np.linspace(0, 2 * np.pi, COLUMNS, endpoint=False)
    radius = 0.3 * (1 + 0.2 * np.sin(3 * turn + rng.uniform(0, 6)) * np.sin(2 * tilt))
    ways = [np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt) + 0 * turn]
    points = (radius * np.stack(ways)).reshape(3, -1).T @ Rotation.random(rng=rng).as_matrix()
    at = points + offset
    angle = 1.3 * at[:, 2]
    line = np.array([0.1, -0.05])
    seven = np.column_stack(
        [np.tile(line, (len(at), 1)), at[:, :2] - line, at[:, 2], np.sin(angle), np.cos(angle)]
    )
    middle = np.concatenate(
        [line, offset[:2] - line, [offset[2], *(f(1.3 * offset[2]) for f in (np.sin, np.cos))]]
    )
    reach = 1.3 * np.linalg.norm(points, axis=1).max()
    hull = np.arange(len(at)) if rng.random() < 0.5 else _hull(points)
    return Outline(seven, _grid_triangles(ROWS, COLUMNS), hull, np.append(middle, reach))


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


def naive(body: Outline, lens: Lens, phase: float) -> np.ndarray | None:
    """The box of all triangles, each clipped by all sides of the lens."""
    p = body.points
    g = 1 + WAVE * (p[:, 5] * np.cos(phase) - p[:, 6] * np.sin(phase))
    seen = np.stack([p[:, 0] + p[:, 2] * g, p[:, 1] + p[:, 3] * g, p[:, 4]], axis=1)
    parts = [clipped(seen[triangle], lens.planes) for triangle in body.triangles]
    left = np.concatenate(parts)
    left = left[left[:, 2] > 1e-9]
    if not len(left):
        return None
    u, v = left[:, 0] / left[:, 2] * lens.across + 0.5, left[:, 1] / left[:, 2] * lens.down + 0.5
    return np.array([u.min(), v.min(), u.max(), v.max()])


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**31),
    st.sampled_from(sorted(LENSES)),
    st.floats(-1.2, 1.2),
    st.floats(-1.0, 1.0),
    st.floats(-0.3, 2),
    st.floats(0, 6.3),
)
def test_boxes_are_those_of_all_triangles_clipped(
    seed: int, name: str, x: float, y: float, z: float, phase: float
) -> None:
    body = body_of(np.random.default_rng(seed), np.array([x, y, z]))
    lens = Lens.of(LENSES[name], 125, 100)
    cameras = shots(np.zeros((1, 3)), np.eye(3)[None], WAVE, np.array([phase]))
    one = np.array([0])
    found = project(Outlines.of([body]), cameras, lens, one, one)[0]
    expected = naive(body, lens, phase)
    if expected is None:
        assert np.isnan(found).all()
        return
    # A body that is shown whole is known by its hull, as many of its points as a picture tells.
    np.testing.assert_allclose(found, expected, atol=2e-3, rtol=0)


@pytest.mark.parametrize("name", sorted(LENSES))
def test_a_body_that_is_cut_has_the_box_of_its_triangles_exactly(name: str) -> None:
    """Every patch that is passed over would not have widened the box."""
    lens, one, cuts = Lens.of(LENSES[name], 125, 100), np.array([0]), 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        z = rng.uniform(0.5, 1.5)
        body = body_of(rng, np.array([*rng.uniform(-0.9, 0.9, 2) * z, z]))
        cameras = shots(np.zeros((1, 3)), np.eye(3)[None], WAVE, np.array([1.0]))
        found = project(Outlines.of([body]), cameras, lens, one, one)[0]
        expected = naive(body, lens, 1.0)
        if expected is not None and (expected[:2].min() < 0.06 or expected[2:].max() > 0.94):
            cuts += 1
            np.testing.assert_allclose(found, expected, atol=1e-8, rtol=0)
    assert cuts > 10
