import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.probe_figures import (
    PolypCounts,
    accuracy,
    auroc,
    macro_f1,
    majority,
    polyp_counts,
    probe_figures,
)


def drawn(seed: int, polyps: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores and polyps of fragments, and labels of polyps, both classes among them."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(polyps) < rng.integers(1, polyps))
    polyp = np.concatenate([np.arange(polyps), rng.integers(0, polyps, 20)])
    scores = np.round(rng.uniform(size=len(polyp)) + 0.2 * label[polyp], 1) - 0.03
    return scores, polyp, label


@given(st.integers(0, 200))
def test_figures_equal_scikit_learn_on_copied_fragments(seed: int) -> None:
    scores, polyp, label = drawn(seed)
    counts = polyp_counts(scores, polyp, label)
    draw = np.random.default_rng(seed).multinomial(8, np.full(8, 1 / 8)).astype(float)
    if not (draw @ label and draw @ ~label):
        return
    rows = np.concatenate(  # each drawn polyp's fragments, as often as it was drawn
        [np.tile(np.flatnonzero(polyp == p), int(draw[p])) for p in range(8)]
    ).astype(int)
    true, said = label[polyp[rows]], scores[rows] > 0.5
    weight = 1 / np.bincount(polyp, minlength=8)[polyp[rows]]
    expected = f1_score(true, said, average="macro", sample_weight=weight, zero_division=0)
    assert macro_f1(counts, draw[None])[0] == pytest.approx(expected)
    assert accuracy(counts, draw[None])[0] == pytest.approx(accuracy_score(true, said))
    polyps = np.repeat(np.arange(8), draw.astype(int))
    means = np.array([scores[polyp == p].mean() for p in range(8)])
    expected = roc_auc_score(label[polyps], np.round(means[polyps], 12))
    exact = PolypCounts(counts.label, counts.fragments, counts.said, np.round(counts.score, 12))
    assert auroc(exact, draw[None])[0] == pytest.approx(expected)


def test_the_majority_votes_and_a_tie_is_half_right() -> None:
    scores = np.array([0.9, 0.9, 0.1, 0.9, 0.1, 0.2])
    polyp = np.array([0, 0, 0, 1, 1, 2])
    counts = polyp_counts(scores, polyp, np.array([True, True, False]))
    assert majority(counts, np.ones((1, 3)))[0] == pytest.approx((1 + 0.5 + 1) / 3)
    assert majority(counts, np.array([[0.0, 2.0, 0.0]]))[0] == 0.5


def test_a_polyp_with_many_fragments_weighs_as_one_with_few() -> None:
    label = np.array([True, True, False])
    few = polyp_counts(np.array([0.9, 0.1, 0.1]), np.arange(3), label)
    many = polyp_counts(np.array([0.9, *[0.1] * 50, 0.1]), np.array([0, *[1] * 50, 2]), label)
    one = np.ones((1, 3))
    assert macro_f1(few, one)[0] == macro_f1(many, one)[0]
    assert accuracy(few, one)[0] != accuracy(many, one)[0]


def test_undefined_draws_are_nan_and_intervals_hold_the_value() -> None:
    scores, polyp, label = drawn(1)
    counts = polyp_counts(scores, polyp, label)
    only = label.astype(float)[None]  # the positive polyps alone
    assert np.isnan(macro_f1(counts, only)[0])
    assert np.isnan(auroc(counts, only)[0])
    other = polyp_counts(scores[::-1].copy(), polyp, label)
    found = probe_figures([counts, other], draw_weights(8, resamples=500))
    assert found.polyps == (int((~label).sum()), int(label.sum()))
    assert found.fragments == len(scores)
    for name, interval in found.figures.items():
        assert interval.n == 8
        assert interval.value == pytest.approx(np.mean(found.per_seed[name]))
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low <= interval.high


def test_one_class_to_test_on_is_refused() -> None:
    counts = polyp_counts(np.array([0.2, 0.7]), np.array([0, 1]), np.array([True, True]))
    with pytest.raises(PolyplinkError, match="one class"):
        probe_figures([counts], draw_weights(2, resamples=10))
    with pytest.raises(PolyplinkError, match="one class"):
        probe_figures([], draw_weights(2, resamples=10))
