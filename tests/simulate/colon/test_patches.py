import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.colon.patches import PATCH, STRETCH, cut_up, join_patches, rest_of


def mesh(seed: int, points: int, triangles: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    seven = np.concatenate([rng.normal(size=(points, 5)), rng.uniform(-1, 1, (points, 2))], axis=1)
    return seven, rng.integers(0, points, (triangles, 3))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 50), st.integers(1, 4 * PATCH))
def test_patches_hold_every_triangle_in_order_and_balls_every_point(
    seed: int, points: int, triangles: int
) -> None:
    seven, corners = mesh(seed, points, triangles)
    patches = cut_up(seven, corners)
    found = []
    for patch, ((first, begin), (last, end)) in enumerate(
        zip(patches.starts[:-1], patches.starts[1:], strict=True)
    ):
        own = patches.columns[:, first:last].T
        assert len(np.unique(own, axis=0)) == len(own) <= 3 * PATCH
        found.append(own[patches.corners[begin:end]])
        middle = rest_of(patches.balls[patch : patch + 1])
        away = np.linalg.norm(rest_of(own) - middle, axis=1)
        assert away.max() <= patches.balls[patch, 7] + 1e-12
    np.testing.assert_array_equal(np.concatenate(found), seven[corners])


def test_meshes_are_joined_one_after_the_other() -> None:
    parts = [cut_up(*mesh(seed, 30, count)) for seed, count in enumerate((PATCH + 1, 5))]
    both = join_patches(parts)
    assert both.starts.tolist() == [
        *parts[0].starts.tolist(),
        *(parts[1].starts[1:] + parts[0].starts[-1]).tolist(),
    ]
    last = both.columns[:, parts[0].columns.shape[1] :]
    np.testing.assert_array_equal(last, parts[1].columns)
    np.testing.assert_array_equal(both.balls[2:], parts[1].balls)
    assert join_patches([]).starts.tolist() == [[0, 0]]


def test_no_wave_moves_points_further_apart_than_balls_grow() -> None:
    """As far from the centre line, as bent and as quick a wave as there are; see `placing.WAVE`."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-2, 2, 200)
    line = np.stack([1.1 * np.sin(0.65 * z + 1), 1.1 * np.sin(0.75 * z + 2)])
    angle, turn, far = 1.6 * z, rng.uniform(0, 6.28, 200), rng.uniform(0.3, 1.2, 200)
    offset = far * np.stack([np.cos(turn), np.sin(turn)])
    rest = np.stack([*(line + offset), z])
    wave = 0.06
    largest = 0.0
    for phase in np.linspace(0, 6.28, 9):
        moved = np.stack([*(line + (1 + wave * np.sin(angle - phase)) * offset), z])
        before = np.linalg.norm(rest[:, :, None] - rest[:, None], axis=0)
        after = np.linalg.norm(moved[:, :, None] - moved[:, None], axis=0)
        largest = max(largest, float((after / np.where(before > 0, before, 1)).max()))
    assert 1 < largest <= 1 + STRETCH * wave
