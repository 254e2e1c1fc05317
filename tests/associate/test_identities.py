"""Identities of one procedure: confidence, questions, constraints."""

import numpy as np
import pytest

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import (
    Constraints,
    OperatingPoint,
    identify,
    link_scores,
    uncertain,
    untuned,
)
from polyplink.associate.links import LinkModel, Views, term_names
from polyplink.associate.partition import TOLERANCE, partition
from polyplink.associate.similarity import visual
from polyplink.core.errors import PolyplinkError

LABELS = np.array([0, 1, 0, 2, 0, 1], dtype=np.int32)


def probabilities(n: int, seed: int = 0) -> np.ndarray:
    raw = np.random.default_rng(seed).random((n, n))
    return (raw + raw.T) / 2


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


def test_what_changes_within_the_interval_is_close() -> None:
    P, price = probabilities(9, 5), 1.0
    labels = partition(P, [price])[0]
    every = uncertain(labels, P, most=100, price=price)
    for spread in (1.2, 2.0, 4.0):
        near = []
        for one in every:
            cost = (TOLERANCE - P[np.ix_(one.members, one.others)]).sum()
            near.append(cost > price / spread if one.joined else cost < price * spread)
        asked = uncertain(labels, P, most=100, price=price, spread=spread)
        assert [one.close for one in asked] == near
        assert [one.pair for one in asked] == [one.pair for one in every]
    for one in every:  # the pair to look at is the one that speaks most against the decision
        between = P[np.ix_(one.members, one.others)]
        assert P[one.pair] == (between.min() if one.joined else between.max())


def test_what_was_decided_holds_and_is_not_asked_again() -> None:
    names = term_names()
    links = LinkModel(-6.0, {name: 12.0 if name == "cosine" else 0.0 for name in names}, 9, 4)
    rng = np.random.default_rng(2)
    start = 3.0 * np.arange(10.0)
    views = Views(rng.normal(size=(10, 3)), start, start + 1.0)
    learned = OperatingPoint(LearnedLinks(1.0), links, "made up", spread=4.0)
    for point in (learned, untuned("no links")):
        free = identify(views, np.linspace(0, 1, 10), point)
        same, other = np.flatnonzero(free.labels == free.labels[0]), free.labels != free.labels[0]
        cannot = ((int(same[0]), int(same[1])),)
        must = ((0, int(np.flatnonzero(other)[0])), (0, int(np.flatnonzero(other)[-1])))
        for decided in (Constraints(must=must), Constraints(cannot=cannot), Constraints()):
            found = identify(views, np.linspace(0, 1, 10), point, decided)
            assert all(found.labels[i] == found.labels[j] for i, j in decided.must)
            assert all(found.labels[i] != found.labels[j] for i, j in decided.cannot)
            firsts = [start[found.labels == label].min() for label in range(len(found.names))]
            assert firsts == sorted(firsts)
            if not (decided.must or decided.cannot):
                assert found.labels.tolist() == free.labels.tolist()
    asked = identify(views, np.linspace(0, 1, 10), learned).doubts[0].pair
    for decided in (
        Constraints(must=(asked,)),
        Constraints(cannot=(asked,)),
        Constraints(unsure=(asked,)),
    ):
        found = identify(views, np.linspace(0, 1, 10), learned, decided)
        assert asked not in [doubt.pair for doubt in found.doubts]
        assert found.interval is not None
        assert found.interval[0] <= len(found.names) <= found.interval[1]
    both = Constraints(must=((0, 1), (1, 2)), cannot=((2, 3),))
    one, two = both.closed(4)
    assert one.astype(int).tolist() == [[1, 1, 1, 0]] * 3 + [[0, 0, 0, 1]]
    assert (two == ~one).all()
    with pytest.raises(PolyplinkError, match="two polyps, and by other constraints one"):
        Constraints(must=((0, 1),), cannot=((1, 0),)).closed(2)


def test_an_open_interval_has_a_question_and_says_what_the_answer_changes() -> None:
    names = term_names()
    links = LinkModel(-6.0, {name: 12.0 if name == "cosine" else 0.0 for name in names}, 9, 4)
    point = OperatingPoint(LearnedLinks(1.0), links, "made up", spread=4.0)
    start, asked = 3.0 * np.arange(8.0), 0
    for seed in range(6):
        views = Views(np.random.default_rng(seed).normal(size=(8, 3)), start, start + 1.0)
        found = identify(views, np.linspace(0, 1, 8), point)
        assert found.interval is not None
        if found.interval[0] == found.interval[1]:
            continue
        assert found.doubts[0].close
        for doubt in found.doubts:
            other = (doubt.pair,)
            decided = Constraints(cannot=other) if doubt.joined else Constraints(must=other)
            count = len(identify(views, np.linspace(0, 1, 8), point, decided).names)
            assert doubt.change == count - len(found.names)
            assert doubt.close or doubt.change == 0
            asked += doubt.change != 0
    assert asked


@pytest.mark.parametrize("seed", range(8))
def test_what_is_seen_at_one_time_is_never_one_polyp_without_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Vectors so alike that the clusterer joins what it is not kept from joining.
    vectors = np.array([1.0, 0, 0]) + 0.05 * rng.normal(size=(12, 3))
    start = np.sort(rng.uniform(0, 30, 12))
    views = Views(vectors, start, start + rng.uniform(0.5, 8, 12))
    point, positions = untuned("a test"), start / 40
    joined = point.setting.cluster(visual(vectors, point.form), positions).labels
    together = joined[:, None] == joined[None, :]
    assert (together & views.overlap).any()  # it would
    labels = identify(views, positions, point).labels
    kept = labels[:, None] == labels[None, :]
    assert not (kept & views.overlap).any()
    assert not (kept & ~together).any()  # clusters are cut, not mixed
    alone = ~(together & views.overlap).any(1)
    assert (kept == together)[np.ix_(alone, alone)].all()
    # A person's decision stands above it.
    i, j = np.argwhere(views.overlap)[0]
    decided = identify(views, positions, point, Constraints(must=[(int(i), int(j))])).labels
    assert decided[i] == decided[j]
