import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.colon.projection import FOCAL
from polyplink.simulate.picture.visible import groups, in_windows
from polyplink.simulate.picture.window import Windows

FRAME = (100, 80)
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


def test_groups_are_rows_that_are_alike() -> None:
    shown = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1]], bool)
    found = {tuple(rows.tolist()): tuple(columns.tolist()) for rows, columns in groups(shown)}
    assert found == {(0, 2): (0, 2), (1,): ()}
    assert [rows.tolist() for rows, _ in groups(np.zeros((2, 0), bool))] == [[0, 1]]
    assert groups(np.zeros((0, 0), bool)) == []
