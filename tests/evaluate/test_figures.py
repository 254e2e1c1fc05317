import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from polyplink.associate.clusterers import Threshold
from polyplink.associate.similarity import unit_rows
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.figures import counting_figures, reid_rows
from tests.evaluate.made import made

SETTINGS = (Threshold(0.1), Threshold(0.5), Threshold(0.9))


def test_counting_figures_name_the_settings_that_were_chosen() -> None:
    labels = [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]]
    counts = [
        count_procedure(labels, polyps, name)
        for name, polyps in [("v", "aabb"), ("w", "abbb"), ("x", "aaaa")]
    ]
    figures = counting_figures(counts, SETTINGS)
    assert figures.settings == tuple(SETTINGS[fold.choice.row] for fold in figures.folds)
    assert figures.setting == SETTINGS[figures.chosen.row]
    assert figures.summary is not None
    assert figures.as_chosen.fr.value == pytest.approx(figures.chosen.fr)


def test_one_procedure_has_an_operating_point_but_no_folds() -> None:
    counts = [count_procedure([[0, 0], [0, 1], [0, 1]], ["a", "b"])]
    figures = counting_figures(counts, SETTINGS)
    assert figures.folds == ()
    assert figures.summary is None
    assert figures.setting == SETTINGS[0]


def test_reid_rows_are_over_each_procedures_own_pairs() -> None:
    vectors, samples, _ = made(unknown=2, noise=2.0)
    unit = unit_rows(vectors)
    rows = reid_rows(unit, samples)
    assert [row.procedure for row in rows] == list(samples.procedures)
    for place, row in enumerate(rows):
        own = np.flatnonzero((samples.procedure == place) & samples.known)
        pairs = [(i, j) for k, i in enumerate(own) for j in own[k + 1 :]]
        same = [bool(samples.polyp[i] == samples.polyp[j]) for i, j in pairs]
        assert (row.positives, row.negatives) == (sum(same), len(same) - sum(same))
        if row.positives and row.negatives:
            scores = [float(unit[i] @ unit[j]) for i, j in pairs]
            assert row.auroc == pytest.approx(roc_auc_score(same, scores))
            assert row.aupr == pytest.approx(average_precision_score(same, scores))
        else:
            assert row.auroc is None
