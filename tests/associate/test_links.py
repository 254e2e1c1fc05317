import json

import numpy as np
import pytest
from scipy.optimize import minimize

from polyplink.associate.links import (
    PENALTY,
    LinkModel,
    Views,
    cross_probabilities,
    fit_links,
    fit_unlabelled,
    link_scores,
    link_terms,
    term_names,
    uncertain,
)
from polyplink.associate.partition import TOLERANCE, partition
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError

LABELS = np.array([0, 1, 0, 2, 0, 1], dtype=np.int32)


def probabilities(n: int, seed: int = 0) -> np.ndarray:
    raw = np.random.default_rng(seed).random((n, n))
    return (raw + raw.T) / 2


def procedure(seed: int, n: int = 12) -> tuple[Views, list[str | None]]:
    """Three polyps, seen one after another, with returns and one view of unknown polyp."""
    rng = np.random.default_rng(seed)
    polyp = np.sort(rng.integers(0, 3, n))
    polyp[n // 2] = 0  # a return
    start = np.cumsum(rng.exponential(4.0, n))
    vectors = rng.normal(size=(3, 6))[polyp] + rng.normal(scale=0.8, size=(n, 6))
    names: list[str | None] = [f"p{code}" for code in polyp]
    names[1] = None
    return Views(vectors, start, start + 1.0), names


def test_terms_equal_a_naive_loop() -> None:
    views, polyps = procedure(0, 7)
    terms, same = link_terms((views, polyps))
    unit = views.vectors / np.linalg.norm(views.vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    others = [cosines[i, j] for i in range(7) for j in range(7) if i != j]
    expected, labels = [], []
    for i in range(7):
        for j in range(i + 1, 7):
            if polyps[i] is None or polyps[j] is None or views.start[j] <= views.end[i]:
                continue
            z = (cosines[i, j] - np.mean(others)) / np.std(others)
            gap = views.start[j] - views.end[i]
            between, lg = j - i - 1, np.log(gap + 0.04)
            ranks = [
                sum(cosines[a, k] > cosines[a, b] for k in range(7) if k != a) / 6
                for a, b in ((i, j), (j, i))
            ]
            lb = np.log(1 + between)
            row = [cosines[i, j], sum(ranks) / 2, z, *(max(z - k, 0) for k in (-0.5, 0.5, 1.2))]
            row += [gap / (views.end.max() - views.start.min())]
            row += [lg, *(max(lg - k, 0) for k in (-1, 0, 1, 2))]
            row += [lb, *(max(lb - k, 0) for k in (0.5, 1.2, 2))]
            expected.append(row)
            labels.append(polyps[i] == polyps[j])
    np.testing.assert_allclose(terms, expected, atol=1e-9)
    assert same.tolist() == labels


def test_the_fit_is_the_penalised_maximum_of_the_likelihood() -> None:
    pairs = [link_terms(procedure(seed, 8 + seed)) for seed in range(6)]
    model = fit_links(pairs)
    assert isinstance(model, LinkModel)
    assert LinkModel(**json.loads(json.dumps(to_plain(model)))) == model
    terms, same = np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs])
    sizes = [y.size for _, y in pairs]
    standard = (terms - terms.mean(axis=0)) / terms.std(axis=0)

    def loss(w: np.ndarray) -> float:
        z = w[0] + standard @ w[1:]
        surprise = np.where(same, np.logaddexp(0, -z), np.logaddexp(0, z))
        means = [each.mean() for each in np.split(surprise, np.cumsum(sizes)[:-1])]
        return float(np.mean(means) * same.size + PENALTY * (w[1:] ** 2).sum() / 2)

    best = minimize(loss, np.zeros(terms.shape[1] + 1)).x
    found = np.array([model.weights[name] for name in term_names()]) * terms.std(axis=0)
    np.testing.assert_allclose(found, best[1:], atol=2e-3)
    assert (model.pairs, model.positives) == (same.size, same.sum())
    views, _ = procedure(9)
    P = model.probability(views)
    np.testing.assert_allclose(P, P.T)
    together = Views(views.vectors, views.start, views.start + 100.0)
    assert (model.probability(together)[~np.eye(12, dtype=bool)] == 0).all()


def test_no_procedure_judges_itself() -> None:
    given = [procedure(seed) for seed in range(4)]
    crossed = cross_probabilities(given, [link_terms(each) for each in given])
    assert not isinstance(crossed, str)
    for left, P in enumerate(crossed):
        others = [link_terms(each) for i, each in enumerate(given) if i != left]
        model = fit_links(others)
        assert isinstance(model, LinkModel)
        np.testing.assert_allclose(P, model.probability(given[left][0]))
    assert cross_probabilities([], []) == []


def test_without_labels_the_sequence_of_views_and_looks_give_links() -> None:
    given = [procedure(seed, 16) for seed in range(12)]
    model = fit_unlabelled([views for views, _ in given])
    assert isinstance(model, LinkModel)
    gained = []
    for views, polyps in given:
        P, names = model.probability(views), np.asarray(polyps, dtype=object)
        same = names[:, None] == names[None, :]
        upper = np.triu(np.ones_like(P, dtype=bool), k=1)
        gained.append(P[upper & same].mean() - P[upper & ~same].mean())
    assert np.mean(gained) > 0.2
    assert fit_unlabelled([]) == "no procedure has two tracklets"


def test_what_cannot_be_fitted_says_why() -> None:
    names = term_names()
    for same, reason in (
        ([True, True], "all 2 labelled pairs show one polyp"),
        ([False], "none of 1 labelled pairs shows one polyp"),
        ([], "none of 0 labelled pairs"),
    ):
        pairs = (np.zeros((len(same), len(names))), np.array(same, dtype=bool))
        assert reason in str(fit_links([pairs]))
    views, _ = procedure(0)
    for call, match in (
        (lambda: link_terms((views, ["a"])), "1 polyps of 12 tracklets"),
        (lambda: Views(views.vectors, views.start, views.end[1:]), "12 starts and 11 ends"),
        (lambda: Views(views.vectors, views.end, views.start), "tracklet 0 has no finite time"),
        (lambda: LinkModel(0.0, {}, 1, 1).probability(views), "has no term 'cosine'"),
        (lambda: link_terms((Views(np.zeros((2, 3)), *np.ones((2, 2))), ["a", "b"])), "is zero"),
    ):
        with pytest.raises(PolyplinkError, match=match):
            call()


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


def test_under_a_price_the_first_doubt_changes_the_count_first() -> None:
    P, price = probabilities(7, 3), 0.5
    labels = partition(P, [price])[0]
    first = uncertain(labels, P, most=1, price=price)[0]
    between = (TOLERANCE - P[np.ix_(first.members, first.others)]).sum()
    for factor in (0.99, 1.01):
        other = partition(P, [between * factor])[0]
        assert (other[first.members[0]] == other[first.others[0]]) == (factor > 1)
