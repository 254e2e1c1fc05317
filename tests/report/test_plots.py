from pathlib import Path
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from polyplink.core.errors import PolyplinkError
from polyplink.report.plots import (
    MOST_IN_LEGEND,
    inline_svg,
    nearest_to_target,
    pareto_front,
    plot_curriculum,
    plot_epochs,
    plot_projection,
    plot_rates,
    plot_recall,
    plot_similarities,
    plot_similarity,
    polyp_order,
    project,
    write_figure,
)
from polyplink.report.polyps import HUES, look

RATES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)


def legend(figure: Figure) -> list[str]:
    found = figure.axes[0].get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def points(figure: Figure, axis: int = 0, line: int = 0) -> list[list[float]]:
    found: list[list[float]] = np.asarray(figure.axes[axis].lines[line].get_xydata()).tolist()
    return found


def test_a_file_is_the_same_every_time(tmp_path: Path) -> None:
    def written(folder: Path) -> list[bytes]:
        figure = plot_recall({"a": np.array([0.2, 0.7])}, "made")
        return [path.read_bytes() for path in write_figure(folder, "recall", figure)]

    svg, png = written(tmp_path / "a")
    assert svg.lstrip().startswith(b"<?xml")
    assert png.startswith(b"\x89PNG")
    assert written(tmp_path / "b") == [svg, png]
    assert not plt.get_fignums()  # no window, nothing kept


def test_the_curriculum_shows_the_median_rank_and_the_purity() -> None:
    ranks = {0.0: np.array([1, 1, 2]), 1.0: np.array([5, 9, 40])}
    figure = plot_curriculum(ranks, {1.0: 0.2, 0.0: 0.9}, "made")
    assert points(figure) == [[0.0, 1.0], [1.0, 9.0]]
    assert points(figure, axis=1) == [[0.0, 0.9], [1.0, 0.2]]
    _, right = plot_curriculum(ranks, {}).axes
    assert [text.get_text() for text in right.texts] == ["polyps unknown"]


@given(RATES)
def test_the_pareto_front_is_what_no_setting_beats(rates: list[tuple[int, int]]) -> None:
    fr, fpr = np.array(rates, dtype=float).T
    x, y = pareto_front(fr, fpr)
    naive = {
        (b, a)
        for a, b in rates
        if not any((c <= a and d <= b) and (c, d) != (a, b) for c, d in rates)
    }
    assert set(zip(x, y, strict=True)) == naive
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) < 0).all()


def test_the_marked_setting_is_the_one_that_would_be_chosen() -> None:
    fr, fpr = np.array([9.0, 4.0, 3.0, 1.0]), np.array([0.0, 0.04, 0.04, 0.5])
    assert nearest_to_target(fr, fpr).tolist() == [2]  # of equal FPR the lower FR; never FPR 0
    assert nearest_to_target(fr[:1], fpr[:1]).size == 0


def test_every_clusterer_has_its_line_and_the_target_is_marked() -> None:
    rates = {"ap": (np.array([2.0, 1.0]), np.array([0.0, 0.3])), "other": (np.ones(1), np.ones(1))}
    figure = plot_rates(rates, "made")
    assert legend(figure) == ["affinity propagation", "other"]
    assert "FPR 0.05" in [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_polyps_that_are_apart_stay_apart(method: str) -> None:
    rng = np.random.default_rng(0)
    vectors = np.repeat(np.eye(3), 8, axis=0) + 0.05 * rng.normal(size=(24, 3))
    own = np.repeat(np.arange(3), 8)
    flat = project(vectors, method)  # type: ignore[arg-type]
    far = np.linalg.norm(flat[:, None] - flat[None], axis=-1)
    np.fill_diagonal(far, np.inf)
    assert (own[far.argmin(axis=1)] == own).all()
    assert np.array_equal(flat, project(vectors, method))  # type: ignore[arg-type]


def test_few_vectors_and_one_dimension_are_projected_and_bad_ones_refused() -> None:
    assert project(np.eye(2)).shape == (2, 2)
    assert project(np.array([[1.0], [-1.0], [1.0]])).shape == (3, 2)
    for bad in (np.ones((1, 3)), np.zeros((4, 3)), np.full((4, 3), np.nan)):
        with pytest.raises(PolyplinkError, match="vectors to draw"):
            project(bad)


def test_the_legend_names_polyps_unless_there_are_too_many() -> None:
    assert legend(plot_projection(np.eye(2), ["p1", "p2"], "made")) == ["p1", "p2"]
    many = [f"p{i}" for i in range(MOST_IN_LEGEND + 1)]
    assert legend(plot_projection(np.zeros((len(many), 2)), many, "made")) == []


def test_tracklets_of_a_polyp_are_neighbours_in_the_matrix() -> None:
    positions = np.array([0.5, 0.1, 0.9, 0.2])
    assert polyp_order([7, 3, 7, 3], positions).tolist() == [1, 3, 0, 2]


def test_each_encoder_has_a_matrix_of_cosines() -> None:
    vectors = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    found = plot_similarities({"a": vectors, "b": vectors}, [4, 2, 4], np.array([0, 0.5, 1]), "m")
    panel = found.axes[0].images[0].get_array()
    assert panel is not None
    half = np.sqrt(0.5)
    assert np.allclose(panel, [[1, half, 0], [half, 1, half], [0, half, 1]])
    assert [axis.get_title(loc="left") for axis in found.axes[:2]] == ["a", "b"]
    assert [text.get_text() for text in found.axes[0].texts] == ["1", "1", "2", "2"]


def test_a_matrix_spans_its_finite_values_off_the_diagonal() -> None:
    S = np.array([[1.0, 0.2, np.nan], [0.2, 1.0, 0.7], [np.nan, 0.7, 1.0]])
    figure = plot_similarity(S, [2, 1], ["1", "2"], [look(0), look(8)])
    assert figure.axes[0].images[0].get_clim() == (0.2, 0.7)
    text = inline_svg(figure, "Similarities")
    for words in (">0.20<", ">0.70<", ">similarity<", ">2<", HUES[0], HUES[1]):
        assert words in text
    for flat in (np.ones((1, 1)), np.full((2, 2), np.nan), np.full((2, 2), 0.5)):
        low, high = (
            plot_similarity(flat, [len(flat)], ["1"], [look(0)]).axes[0].images[0].get_clim()
        )
        assert low < high


def test_hover_texts_and_gaps_of_a_curve() -> None:
    figure = plot_epochs({"train": (3.0, None, 1.0), "other": (2.0,)}, "loss", best_epoch=2)
    assert len(figure.axes[0].lines) == 3  # the best epoch is marked
    assert len(plot_epochs({"a": (1.0, 2.0)}, "y", best_epoch=7).axes[0].lines) == 1
    text = inline_svg(figure, "Loss <over> epochs", {"train": ["first & low", "last"]})
    root = ElementTree.fromstring(text)
    titles = [e.text for e in root.iter() if e.tag.endswith("title")]
    assert titles == ["first & low", "last"]
    assert root.get("aria-label") == "Loss <over> epochs"
    assert "var(--soft)" in text  # follows the page's theme
    assert "<style" not in text
