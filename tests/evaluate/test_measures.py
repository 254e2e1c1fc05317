import numpy as np
import pytest

from polyplink.evaluate.choosing import leave_one_out, summarise
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.measures import counting_measures, reid_measures
from polyplink.evaluate.reid import reidentify
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import ends, made


def test_reid_is_exact_with_an_interval_around_it() -> None:
    vectors, samples, _ = made(noise=2.0)
    found = reidentify(vectors, samples)
    measures = reid_measures(found, samples, draw_weights(4, resamples=200))
    assert (measures["AUROC"].value, measures["AUPR"].value) == (found.auroc, found.aupr)
    for measure in measures.values():
        interval = measure.figure()
        low, high = ends(interval)
        assert interval.value is not None
        assert low <= interval.value <= high
        assert interval.n == 4


def test_reid_without_a_positive_pair_is_none() -> None:
    samples = Samples.of(["a", "b"], ["v", "w"], ["p", "q"], [0, 0])
    measures = reid_measures(reidentify(np.eye(2), samples), samples, draw_weights(2, resamples=9))
    assert (measures["AUROC"].value, measures["AUROC"].figure().low) == (None, None)


def test_counting_is_the_mean_over_folds_and_says_how_many() -> None:
    labels = [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]]
    folds = leave_one_out(
        [
            count_procedure(labels, polyps, name)
            for name, polyps in [("v", "aabb"), ("w", "abbb"), ("x", "aaaa")]
        ]
    )
    measures = counting_measures("threshold", folds, 3, draw_weights(3, resamples=50))
    summary = summarise(folds)
    for name, spread in (
        ("FR", summary.fr),
        ("FPR", summary.fpr),
        ("precision", summary.precision),
        ("recall", summary.recall),
        ("precision with self", summary.precision_with_self),
        ("recall with self", summary.recall_with_self),
    ):
        found = measures[f"threshold/{name}"]
        assert found.n == spread.n
        assert found.value == (None if spread.value is None else pytest.approx(spread.value))
    assert measures["threshold/exact"].value == pytest.approx(summary.exact)
    errors = [abs(fold.clusters - fold.polyps) for fold in folds]
    assert measures["threshold/count error"].value == pytest.approx(np.mean(errors))
    assert measures["threshold/FPR"].n == 2  # FPR needs two polyps


def test_without_folds_figures_are_undefined_not_zero() -> None:
    measures = counting_measures("threshold", (), 1, draw_weights(1, resamples=5))
    assert all(measure.value is None for measure in measures.values())
    assert measures["threshold/FR"].figure().low is None
