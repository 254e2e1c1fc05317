import numpy as np

from polyplink.report.drawn_curriculum import draw_curriculum


def test_the_median_and_the_purity_are_drawn() -> None:
    ranks = {0.0: np.array([1, 1, 2]), 1.0: np.array([5, 9, 40])}
    left, right = draw_curriculum(ranks, {0.0: 0.9, 1.0: 0.2}, "made").axes
    assert left.lines[0].get_ydata().tolist() == [1.0, 9.0]  # type: ignore[union-attr]
    assert list(right.lines[0].get_ydata()) == [0.9, 0.2]  # type: ignore[arg-type]


def test_unknown_polyps_say_so() -> None:
    _, right = draw_curriculum({0.0: np.array([1, 2])}, {}).axes
    assert [text.get_text() for text in right.texts] == ["polyps unknown"]
