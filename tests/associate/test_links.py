import json

import numpy as np
import pytest
from scipy.optimize import minimize

from polyplink.associate.links import (
    Calibration,
    LabelledPairs,
    fit_calibration,
    labelled_pairs,
    link_scores,
    uncertain,
)
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError

LABELS = np.array([0, 1, 0, 2, 0, 1], dtype=np.int32)


def probabilities(n: int, seed: int = 0) -> np.ndarray:
    raw = np.random.default_rng(seed).random((n, n))
    return (raw + raw.T) / 2


def pairs(m: int, seed: int) -> LabelledPairs:
    rng = np.random.default_rng(seed)
    visual, gap = rng.random((2, m))
    same = rng.random(m) < 1 / (1 + np.exp(-(4 * visual - 3 * gap - 1.5)))
    return visual, gap, same


def test_the_fit_is_the_penalised_maximum_of_the_likelihood() -> None:
    procedures = [pairs(150, 0), pairs(90, 1)]
    calibration = fit_calibration(procedures)
    assert isinstance(calibration, Calibration)
    assert Calibration(**json.loads(json.dumps(to_plain(calibration)))) == calibration
    V, gap, same = (np.concatenate(sides) for sides in zip(*procedures, strict=True))

    def loss(w: np.ndarray) -> float:
        z = w[0] + w[1] * V + w[2] * gap
        likelihood = np.where(same, -np.logaddexp(0, -z), -np.logaddexp(0, z)).sum()
        return float(-likelihood + (w[1] ** 2 + w[2] ** 2) / 2)

    best = minimize(loss, np.zeros(3)).x
    found = [calibration.intercept, calibration.per_visual, calibration.per_gap]
    np.testing.assert_allclose(found, best, atol=2e-3)
    assert (calibration.pairs, calibration.positives) == (240, same.sum())
    # Unbalanced: the mean probability is the true rate.
    np.testing.assert_allclose(calibration.probability(V, gap).mean(), same.mean(), atol=1e-3)


@pytest.mark.parametrize(
    ("same", "reason"),
    [
        ([True, True], "all 2 labelled pairs show one polyp"),
        ([False, False], "none of 2 labelled pairs shows one polyp"),
        ([], "none of 0 labelled pairs"),
    ],
)
def test_one_class_gives_no_calibration_but_a_reason(same: list[bool], reason: str) -> None:
    values = np.linspace(0, 1, len(same))
    assert reason in str(fit_calibration([(values, values, np.array(same, dtype=bool))]))


def test_labelled_pairs_equal_a_naive_loop() -> None:
    V, gaps = probabilities(5), probabilities(5, 1)
    polyps = ["a", None, "b", "a", "b"]
    found = labelled_pairs(V, gaps, polyps)
    expected = [
        (V[i, j], gaps[i, j], polyps[i] == polyps[j])
        for i in range(5)
        for j in range(i + 1, 5)
        if polyps[i] is not None and polyps[j] is not None
    ]
    assert list(zip(*found, strict=True)) == expected
    with pytest.raises(PolyplinkError, match="2 polyps do not match"):
        labelled_pairs(np.ones((3, 3)), np.ones((3, 3)), ["a", "b"])


def test_link_scores_equal_a_naive_loop() -> None:
    P = probabilities(6)
    for i, score in enumerate(link_scores(LABELS, P)):
        mates = [P[i, j] for j in range(6) if j != i and LABELS[j] == LABELS[i]]
        others = [P[i, j] for j in range(6) if j != i]
        expected = sum(mates) / len(mates) if mates else 1 - max(others)
        assert score == pytest.approx(expected, abs=1e-12)
    np.testing.assert_array_equal(link_scores(np.zeros(1, np.int32), np.ones((1, 1))), [1.0])
    assert np.isnan(link_scores(LABELS, None)).all()
    assert uncertain(LABELS, None) == []


def test_uncertain_lists_every_decision_worst_first() -> None:
    P = probabilities(6)
    found = uncertain(LABELS, P, most=100)
    clusters = [(0, 2, 4), (1, 5), (3,)]
    expected: set[tuple[tuple[int, ...], tuple[int, ...]]] = {((1,), (5,))}
    expected |= {((i,), tuple(j for j in clusters[0] if j != i)) for i in clusters[0]}
    expected |= {(clusters[a], clusters[b]) for a, b in [(0, 1), (0, 2), (1, 2)]}
    assert {(d.members, d.others) for d in found} == expected
    for d in found:
        mean = np.mean([P[i, j] for i in d.members for j in d.others])
        assert d.probability == pytest.approx(mean, abs=1e-12)
        assert d.joined == (LABELS[d.members[0]] == LABELS[d.others[0]])
    doubts = [1 - d.probability if d.joined else d.probability for d in found]
    assert doubts == sorted(doubts, reverse=True)
    assert uncertain(LABELS, P, most=2) == found[:2]
