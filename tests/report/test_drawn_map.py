import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.report.drawn_map import MOST, draw_map, flatten


def test_polyps_that_are_apart_stay_apart() -> None:
    rng = np.random.default_rng(0)
    vectors = np.repeat(np.eye(3), 8, axis=0) + 0.05 * rng.normal(size=(24, 3))
    own = np.repeat(np.arange(3), 8)
    for way in ("tsne", "pca"):
        points = flatten(vectors, way)
        far = np.linalg.norm(points[:, None] - points[None], axis=-1)
        np.fill_diagonal(far, np.inf)
        assert (own[far.argmin(axis=1)] == own).all()
    assert np.array_equal(flatten(vectors), flatten(vectors))


def test_few_points_and_one_dimension_go_through() -> None:
    assert flatten(np.array([[1.0, 0.0], [0.0, 1.0]])).shape == (2, 2)
    assert flatten(np.array([[1.0], [-1.0], [1.0]])).shape == (3, 2)


def test_bad_vectors_are_refused() -> None:
    for bad in (np.ones((1, 3)), np.zeros((4, 3)), np.full((4, 3), np.nan)):
        with pytest.raises(PolyplinkError, match="vectors to draw"):
            flatten(bad)


def test_the_key_names_polyps_unless_there_are_too_many() -> None:
    (axis,) = draw_map(np.eye(2), ["p1", "p2"], "made").axes
    legend = axis.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["p1", "p2"]
    many = [f"p{i}" for i in range(MOST + 1)]
    (axis,) = draw_map(np.zeros((MOST + 1, 2)), many, "made").axes
    assert axis.get_legend() is None
