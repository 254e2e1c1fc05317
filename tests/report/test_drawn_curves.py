import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyplink.report.drawn_curves import draw_rates, draw_recall, frontier, nearest_setting

RATES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)


@given(RATES)
def test_the_frontier_is_what_no_setting_beats(rates: list[tuple[int, int]]) -> None:
    fr, fpr = np.array(rates, dtype=float).T
    x, y = frontier(fr, fpr)
    naive = {
        (b, a)
        for a, b in rates
        if not any((c <= a and d <= b) and (c, d) != (a, b) for c, d in rates)
    }
    assert set(zip(x, y, strict=True)) == naive
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) < 0).all()


def test_every_clusterer_has_its_line_and_the_target_is_marked() -> None:
    rates = {"ap": (np.array([2.0, 1.0]), np.array([0.0, 0.3])), "other": (np.ones(1), np.ones(1))}
    (axis,) = draw_rates(rates, "made").axes
    legend = axis.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["affinity propagation", "other"]
    assert "FPR 0.05" in [text.get_text() for text in axis.texts]


def test_recall_starts_at_one() -> None:
    (axis,) = draw_recall({"a": np.array([0.2, 0.7])}, "made").axes
    assert axis.lines[0].get_xdata().tolist() == [1, 2]  # type: ignore[union-attr]
    assert axis.lines[0].get_ydata().tolist() == [0.2, 0.7]  # type: ignore[union-attr]


def test_the_marked_setting_is_the_one_that_would_be_chosen() -> None:
    fr, fpr = np.array([9.0, 4.0, 3.0, 1.0]), np.array([0.0, 0.04, 0.04, 0.5])
    assert nearest_setting(fr, fpr).tolist() == [2]  # of equal FPR the lower FR; never FPR 0
    assert nearest_setting(fr[:1], fpr[:1]).size == 0
