import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.image import imread

from polyplink.report.matching import match
from polyplink.report.matrix import (
    COLOURS,
    LARGEST,
    SMALLEST,
    blocks,
    draw,
    order_by_polyp,
    picture,
    spread,
)
from polyplink.report.model import Procedure, Tracklet
from tests.report.sample import procedure


def pixels(uri: str) -> np.ndarray:
    return np.asarray(imread(io.BytesIO(base64.b64decode(uri.partition(",")[2])), format="png"))


def test_picture_has_one_pixel_per_value() -> None:
    values = np.array([[0.0, 0.5], [1.0, np.nan]])
    seen = pixels(picture(values, 0.0, 1.0))
    assert seen.shape == (2, 2, 4)
    for place in ((0, 0), (0, 1), (1, 0)):
        expected = colormaps[COLOURS](values[place])
        assert np.allclose(seen[place], expected, atol=1 / 255)
    assert np.allclose(seen[1, 1, :3], 0x88 / 255, atol=1 / 255)  # missing is grey


def test_spread_is_of_finite_values() -> None:
    assert spread(np.array([0.2, np.nan, 0.9])) == (0.2, 0.9)
    assert spread(np.array([0.4, 0.4])) == pytest.approx((-0.1, 0.9))
    assert spread(np.array([])) == spread(np.array([np.nan])) == (0.0, 1.0)


def test_rows_are_ordered_by_polyp_then_time() -> None:
    members = (
        Tracklet("late", 90, 99, "x"),
        Tracklet("other", 50, 60, "y"),
        Tracklet("early", 0, 9, "x"),
    )
    made = Procedure("p", 100, members)
    assert order_by_polyp(made, match(made)) == [2, 0, 1]


def test_matrix_is_drawn_in_that_order() -> None:
    n = 5
    rng = np.random.default_rng(0)
    similarity = rng.random((n, n))
    made = replace(procedure(), similarity=similarity)
    matching = match(made)
    order = order_by_polyp(made, matching)
    drawing = draw(made, matching)
    assert drawing is not None
    off = [similarity[i, j] for i in range(n) for j in range(n) if i != j]
    assert (drawing.low, drawing.high) == (f"{min(off):.2f}", f"{max(off):.2f}")
    seen = pixels(drawing.image)
    for row in range(n):
        for column in range(n):
            value = (similarity[order[row], order[column]] - min(off)) / (max(off) - min(off))
            expected = colormaps[COLOURS](min(max(value, 0.0), 1.0))
            assert np.allclose(seen[row, column], expected, atol=4 / 255)


def test_blocks_lie_end_to_end() -> None:
    made = procedure()
    found = blocks(made, match(made), 10.0)
    assert [(b.polyp.name, b.start, b.length) for b in found] == [
        ("x", 0, 20),
        ("z", 20, 10),
        ("y", 30, 20),
    ]
    assert all(b.labelled for b in found)
    assert not any(b.labelled for b in blocks(made, match(made), 2.0))


@pytest.mark.parametrize(("n", "size"), [(1, SMALLEST), (200, LARGEST)])
def test_size_is_kept_within_bounds(n: int, size: float) -> None:
    members = tuple(Tracklet(f"t{i}", i, i, "x") for i in range(n))
    made = Procedure("p", n, members, similarity=np.ones((n, n)))
    drawing = draw(made, match(made))
    assert drawing is not None
    assert drawing.size == size


def test_no_matrix_without_similarities_or_tracklets() -> None:
    for made in (
        replace(procedure(), similarity=None),
        Procedure("p", 10, (), similarity=np.zeros((0, 0))),
    ):
        assert draw(made, match(made)) is None
