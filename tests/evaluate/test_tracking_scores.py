import numpy as np
import pytest

from polyplink.bench.tracking import agree, trackeval_figures
from polyplink.evaluate.tracking import score_tracks
from polyplink.evaluate.tracking_scores import (
    FIGURES,
    TrackingCounts,
    association_sums,
    tracking_figures,
)
from tests.evaluate.scenes import scene


def test_procedures_are_combined_as_trackeval_combines_sequences() -> None:
    scenes = [scene(seed) for seed in range(4)]
    counts = [score_tracks(*one) for one in scenes]
    assert agree(TrackingCounts.total(counts), trackeval_figures(*scenes))


def test_weights_are_copies_of_procedures() -> None:
    counts = [score_tracks(*scene(seed)) for seed in range(3)]
    drawn = TrackingCounts.weighted(counts, [[2, 0, 1], [0, 1, 0]])
    copies = tracking_figures(TrackingCounts.total([counts[0], counts[0], counts[2]]))
    alone = tracking_figures(counts[1])
    found = tracking_figures(drawn)
    assert set(found) == set(FIGURES)
    for name in FIGURES:
        np.testing.assert_allclose(found[name], [copies[name], alone[name]], atol=1e-12)


def test_association_sums_equal_a_double_loop() -> None:
    table = np.array([[3.0, 0.0, 1.0], [2.0, 4.0, 0.0]])
    true, found = np.array([5.0, 6.0]), np.array([7.0, 4.0, 1.0])
    accuracy = precision = recall = 0.0
    for i in range(2):
        for j in range(3):
            c = table[i, j]
            accuracy += c * c / (true[i] + found[j] - c)
            precision += c * c / found[j]
            recall += c * c / true[i]
    assert association_sums(table, true, found) == pytest.approx((accuracy, precision, recall))


def test_without_a_true_box_nothing_is_said() -> None:
    true, found = scene(0)
    empty = type(true)(true.frame[:0], true.track[:0], true.box[:0], 0)
    figures = tracking_figures(score_tracks(empty, found))
    assert all(np.isnan(value) for value in figures.values())
    nobody = tracking_figures(score_tracks(true, empty))
    assert float(nobody["HOTA"]) == float(nobody["IDF1"]) == float(nobody["MOTA"]) == 0.0
