import numpy as np

from polyplink.evaluate.alike import distance_to_best, no_different
from polyplink.evaluate.intervals import Resampled, draw_weights, resampled_mean

WEIGHTS = draw_weights(12, resamples=500, seed=0)


def measure(values: np.ndarray) -> Resampled:
    return resampled_mean(values, np.ones(12), WEIGHTS)


def test_those_within_chance_of_the_best_stand_with_it() -> None:
    base = np.linspace(0.3, 0.9, 12)
    wave = 0.1 * np.where(np.arange(12) % 2, 1.0, -1.0)
    measures = {
        "worse": measure(base - 0.2),
        "near": measure(base + wave - 0.01),
        "best": measure(base),
    }
    assert no_different("mAP", measures) == ("best", "near")
    # A difference that is small but in every procedure is told apart: pairs, not overlap.
    assert no_different("mAP", {"a": measure(base), "b": measure(base - 0.001)}) == ("a",)


def test_the_ideal_of_a_rate_is_not_its_largest_value() -> None:
    fr = {"many": measure(np.full(12, 3.0)), "few": measure(np.full(12, 0.8))}
    assert no_different("threshold/FR", fr) == ("few",)
    assert no_different("tracking/threshold/IDSW", fr) == ("few",)
    assert no_different("threshold/recall", fr) == ("many",)
    assert distance_to_best("ap/FR", 0.8) < distance_to_best("ap/FR", 3.0)


def test_nothing_is_marked_where_nothing_is_known() -> None:
    one = resampled_mean([1.0], [1.0], draw_weights(1, resamples=9))
    other = resampled_mean([0.5], [1.0], draw_weights(1, resamples=9))
    assert no_different("mAP", {"a": one, "b": other}) == ()
    assert no_different("mAP", {"a": one}) == ()
    undefined = resampled_mean([0.0], [0.0], draw_weights(1, resamples=9))
    assert no_different("mAP", {"a": one, "b": undefined}) == ()


def test_the_ideal_of_a_clinics_rate_is_the_true_one() -> None:
    counted = {"many": measure(np.full(12, 5.0)), "right": measure(np.full(12, 2.1))}
    assert no_different("threshold/PPC", counted, {"threshold/PPC": 2.0}) == ("right",)
    assert no_different("ap/PPC", counted, {"ap/PPC": 5.0}) == ("many",)
