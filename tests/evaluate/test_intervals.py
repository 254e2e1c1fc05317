import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.intervals import (
    Resampled,
    draw_weights,
    no_different,
    resampled_mean,
)
from polyplink.evaluate.metric import ideal_of
from tests.evaluate.random_tracklets import ends

SUMS = np.array([3.0, 0.0, 5.5, 2.0])
COUNTS = np.array([4.0, 0.0, 9.0, 2.0])


def naive_means(values: list[list[float]], weights: np.ndarray) -> list[float]:
    """Means over all values of the drawn procedures; resamples without values are left out."""
    means = []
    for row in weights:
        drawn = [v for unit, times in enumerate(row) for v in values[unit] * times]
        if drawn:
            means.append(sum(drawn) / len(drawn))
    return means


def test_weights_are_draws_with_replacement() -> None:
    weights = draw_weights(7, resamples=4000, seed=1)
    assert (weights.sum(axis=1) == 7).all()
    np.testing.assert_allclose(weights.mean(axis=0), 1.0, atol=0.06)
    # Binomial(7, 1/7): a share (6/7)^7 of the resamples does not draw a procedure.
    np.testing.assert_allclose((weights == 0).mean(), (6 / 7) ** 7, atol=0.01)
    np.testing.assert_array_equal(weights, draw_weights(7, resamples=4000, seed=1))


@pytest.mark.usefixtures("intervals_of_few")
def test_a_resampled_mean_equals_resampling_value_by_value() -> None:
    rng = np.random.default_rng(0)
    values = [rng.random(n).tolist() for n in (5, 0, 2, 11, 1)]
    weights = draw_weights(5, resamples=300, seed=2)
    mean = resampled_mean([sum(v) for v in values], [len(v) for v in values], weights).figure()
    low, high = np.percentile(naive_means(values, weights), [2.5, 97.5])
    assert mean.value == pytest.approx(np.mean([v for unit in values for v in unit]))
    np.testing.assert_allclose(ends(mean), [low, high])
    assert mean.n == 4


def test_a_difference_is_paired_by_resample() -> None:
    rng = np.random.default_rng(1)
    first, counts = rng.random(6) * 5, rng.integers(1, 9, 6)
    second = first - 0.1 * counts + 0.01 * rng.normal(size=6)
    weights = draw_weights(6, resamples=500, seed=3)
    differences = [
        (row @ first) / (row @ counts) - (row @ second) / (row @ counts) for row in weights
    ]
    difference = resampled_mean(first, counts, weights).minus(
        resampled_mean(second, counts, weights)
    )
    assert difference.value == pytest.approx((first - second).sum() / counts.sum())
    low, high = np.percentile(differences, [2.5, 97.5])
    np.testing.assert_allclose(ends(difference), [low, high])
    assert difference.low is not None
    assert difference.low > 0  # paired, so much narrower than the interval of either method
    unpaired = resampled_mean(first, counts, weights).figure()
    assert np.ptp(ends(difference)) < np.ptp(ends(unpaired)) / 5


@pytest.mark.usefixtures("intervals_of_few")
def test_resamples_without_values_are_left_out_of_an_interval() -> None:
    partial = resampled_mean(SUMS, COUNTS, draw_weights(4, resamples=50)).figure()
    assert partial.low is not None
    assert partial.low > 0.5


@pytest.mark.parametrize(("units", "resamples"), [(0, 10), (3, 0)])
def test_an_empty_bootstrap_is_refused(units: int, resamples: int) -> None:
    with pytest.raises(PolyplinkError, match=f"{resamples} resamples over {units} procedures"):
        draw_weights(units, resamples=resamples)


def test_a_difference_over_different_procedures_has_no_interval() -> None:
    weights = draw_weights(3, resamples=50)
    all_procedures = resampled_mean([1.0, 2.0, 3.0], [1, 1, 1], weights)
    two_procedures = resampled_mean([1.0, 0.0, 3.0], [1, 0, 1], weights)
    difference = all_procedures.minus(two_procedures)
    assert difference.value == 0.0
    assert (difference.low, difference.high, difference.n) == (None, None, 2)


WEIGHTS = draw_weights(12, resamples=500, seed=0)


def measure(values: np.ndarray) -> Resampled:
    return resampled_mean(values, np.ones(12), WEIGHTS)


def test_methods_within_chance_of_the_best_are_no_different() -> None:
    base = np.linspace(0.3, 0.9, 12)
    wave = 0.1 * np.where(np.arange(12) % 2, 1.0, -1.0)
    measures = {
        "worse": measure(base - 0.2),
        "near": measure(base + wave - 0.01),
        "best": measure(base),
    }
    assert no_different(measures) == ("best", "near")
    # A small difference in every procedure is distinguished, because the test is paired.
    assert no_different({"a": measure(base), "b": measure(base - 0.001)}) == ("a",)


def test_a_difference_shows_from_six_procedures_on() -> None:
    # Five procedures that all agree, as they do by chance in one of sixteen cases.
    for units, marked in ((2, ()), (5, ()), (6, ("a",))):
        weights = draw_weights(units, resamples=99)
        a, b = (resampled_mean([value] * units, [1.0] * units, weights) for value in (0.9, 0.1))
        assert no_different({"a": a, "b": b}) == marked
        assert a.minus(b).differs == (units == 6)


def test_the_best_method_is_nearest_to_the_ideal_of_the_figure() -> None:
    fr = {"many": measure(np.full(12, 3.0)), "few": measure(np.full(12, 0.8))}
    assert no_different(fr, ideal_of("threshold/FR")) == ("few",)
    assert no_different(fr, ideal_of("tracking/threshold/IDSW")) == ("few",)
    assert no_different(fr) == ("many",)
    counted = {"many": measure(np.full(12, 5.0)), "right": measure(np.full(12, 2.1))}
    assert no_different(counted, 2.0) == ("right",)
    assert no_different(counted, 5.0) == ("many",)


def test_no_method_is_marked_without_an_interval() -> None:
    best = resampled_mean([1.0], [1.0], draw_weights(1, resamples=9))
    other = resampled_mean([0.5], [1.0], draw_weights(1, resamples=9))
    assert no_different({"a": best, "b": other}) == ()
    assert no_different({"a": best}) == ()
    undefined = resampled_mean([0.0], [0.0], draw_weights(1, resamples=9))
    assert no_different({"a": best, "b": undefined}) == ()
