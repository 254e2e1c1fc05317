import numpy as np
import pytest

from polyplink.associate.settings import Threshold
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.figures import counting_figures, reid_figures, retrieval_figures
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.reid import reidentify
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import made

SETTINGS = (Threshold(0.1), Threshold(0.5), Threshold(0.9))


def test_retrieval_rows_are_means_of_their_procedure() -> None:
    vectors, samples, _ = made(unknown=3, noise=2.0)
    found = retrieve(vectors, samples)
    figures = retrieval_figures(found, samples, draw_weights(4, resamples=100))
    for place, row in enumerate(figures.procedures):
        own = found.valid & (samples.procedure == place)
        assert row.procedure == samples.procedures[place]
        assert row.queries == own.sum()
        assert row.mean_ap == pytest.approx(found.ap[own].mean())
        assert row.hr1 == pytest.approx(found.hit1[own].mean())
        assert row.hr5 == pytest.approx(found.hit5[own].mean())
    assert figures.mean_ap.value == pytest.approx(found.mean_ap)
    assert figures.hr1.value == pytest.approx(found.hr1)
    assert figures.hr5.value == pytest.approx(found.hr5)
    assert figures.mean_ap.low is not None
    assert figures.mean_ap.high is not None
    assert figures.mean_ap.low < found.ap[found.valid].mean() < figures.mean_ap.high
    assert (figures.queries, figures.unlabelled) == (found.valid.sum(), 3)


def test_a_procedure_without_a_query_has_no_figure() -> None:
    samples = Samples.of(["a", "b", "c"], ["v", "v", "w"], ["p", "p", "q"], [0, 1, 0])
    found = retrieve(np.eye(3), samples)
    figures = retrieval_figures(found, samples, draw_weights(2, resamples=10))
    assert (figures.procedures[1].queries, figures.procedures[1].mean_ap) == (0, None)
    assert figures.mean_ap.n_units == 1
    assert figures.mean_ap.low is None
    assert figures.unmatched == 1


def test_reid_figures_are_exact_with_an_interval_around_them() -> None:
    vectors, samples, _ = made(noise=2.0)
    found = reidentify(vectors, samples)
    figures = reid_figures(found, samples, draw_weights(4, resamples=200))
    assert (figures.auroc.value, figures.aupr.value) == (found.auroc, found.aupr)
    for interval in (figures.auroc, figures.aupr):
        assert interval.low is not None
        assert interval.high is not None
        assert interval.value is not None
        assert interval.low <= interval.value <= interval.high
        assert interval.n_units == 4


def test_reid_without_a_positive_pair_is_none() -> None:
    samples = Samples.of(["a", "b"], ["v", "w"], ["p", "q"], [0, 0])
    figures = reid_figures(reidentify(np.eye(2), samples), samples, draw_weights(2, resamples=9))
    assert (figures.auroc.value, figures.auroc.low, figures.negatives) == (None, None, 1)


def test_counting_figures_name_the_settings_that_were_chosen() -> None:
    labels = [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]]
    counts = [
        count_procedure(labels, polyps, name)
        for name, polyps in [("v", "aabb"), ("w", "abbb"), ("x", "aaaa")]
    ]
    figures = counting_figures(counts, SETTINGS, draw_weights(3, resamples=50))
    assert figures.settings == tuple(SETTINGS[fold.choice.row] for fold in figures.folds)
    assert figures.setting == SETTINGS[figures.chosen.row]
    assert figures.summary is not None
    assert figures.fr.value == pytest.approx(figures.summary.fr.mean)
    assert figures.fpr.value == pytest.approx(figures.summary.fpr.mean)
    assert (figures.fr.n_units, figures.fpr.n_units) == (3, 2)
    assert figures.as_chosen.fr.mean == pytest.approx(figures.chosen.fr)


def test_one_procedure_has_an_operating_point_but_no_folds() -> None:
    counts = [count_procedure([[0, 0], [0, 1], [0, 1]], ["a", "b"])]
    figures = counting_figures(counts, SETTINGS, draw_weights(1, resamples=5))
    assert figures.folds == ()
    assert figures.summary is None
    assert figures.fr.value is None
    assert figures.setting == SETTINGS[0]
