"""The polyps of one procedure: confidence, questions, constraints."""

from unittest.mock import patch

import numpy as np
import pytest

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import (
    NEGLIGIBLE,
    Constraints,
    OperatingPoint,
    Question,
    identify,
    link_scores,
    possible_questions,
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
        others = [P[i, label == LABELS].mean() for label in set(LABELS.tolist()) - {LABELS[i]}]
        expected = sum(mates) / len(mates) if mates else 1 - max(others)
        assert score == pytest.approx(expected, abs=1e-12)
    np.testing.assert_array_equal(link_scores(np.zeros(1, np.int32), np.ones((1, 1))), [1.0])
    assert np.isnan(link_scores(LABELS, None)).all()


def test_uncertain_lists_every_decision_least_certain_first() -> None:
    P, setting = probabilities(6), LearnedLinks(0.5)
    decisions = possible_questions(LABELS, P, setting)
    clusters = [(0, 2, 4), (1, 5), (3,)]
    expected: set[tuple[tuple[int, ...], tuple[int, ...]]] = {((1,), (5,))}
    expected |= {((i,), tuple(j for j in clusters[0] if j != i)) for i in clusters[0]}
    expected |= {(clusters[a], clusters[b]) for a, b in [(0, 1), (0, 2), (1, 2)]}
    assert {(d.members, d.others) for d in decisions} == expected
    gains = []  # of the decision, in the cost of the partition
    for d in decisions:
        pairs = [P[i, j] for i in d.members for j in d.others]
        assert d.probability == pytest.approx(np.mean(pairs), abs=1e-12)
        assert d.joined == (LABELS[d.members[0]] == LABELS[d.others[0]])
        joining = sum(TOLERANCE - p for p in pairs) - setting.price
        gains.append(-joining if d.joined else joining)
    assert gains == sorted(gains)


def test_the_first_question_is_the_first_decision_that_another_price_changes() -> None:
    P, price = probabilities(7, 3), 0.5
    labels = partition(P, [price])[0]
    question = possible_questions(labels, P, LearnedLinks(price))[0]
    cost = (TOLERANCE - P[np.ix_(question.members, question.others)]).sum()
    for factor in (0.99, 1.01):
        other = partition(P, [cost * factor])[0]
        assert (other[question.members[0]] == other[question.others[0]]) == (factor > 1)


def test_decisions_that_change_within_the_interval_are_close() -> None:
    P, price = probabilities(9, 5), 1.0
    labels = partition(P, [price])[0]
    questions = possible_questions(labels, P, LearnedLinks(price))
    for spread in (1.2, 2.0, 4.0):
        expected = []
        for question in questions:
            cost = (TOLERANCE - P[np.ix_(question.members, question.others)]).sum()
            expected.append(cost > price / spread if question.joined else cost < price * spread)
        spread_questions = possible_questions(labels, P, LearnedLinks(price), spread=spread)
        assert [question.close for question in spread_questions] == expected
        assert [question.pair for question in spread_questions] == [
            question.pair for question in questions
        ]
    for question in questions:  # the pair to show is the one that contradicts the decision most
        block = P[np.ix_(question.members, question.others)]
        assert P[question.pair] == (block.min() if question.joined else block.max())


def test_constraints_hold_and_are_not_asked_again() -> None:
    names = term_names()
    links = LinkModel(-6.0, {name: 12.0 if name == "cosine" else 0.0 for name in names}, 9, 4)
    rng = np.random.default_rng(2)
    start = 3.0 * np.arange(10.0)
    views = Views(rng.normal(size=(10, 3)), start, start + 1.0)
    learned_links = OperatingPoint(LearnedLinks(1.0), links, "made up", spread=4.0)
    for point in (learned_links, untuned("no links")):
        free = identify(views, np.linspace(0, 1, 10), point)
        same, other = np.flatnonzero(free.labels == free.labels[0]), free.labels != free.labels[0]
        cannot = ((int(same[0]), int(same[1])),)
        must = ((0, int(np.flatnonzero(other)[0])), (0, int(np.flatnonzero(other)[-1])))
        for constraints in (
            Constraints(must=must),
            Constraints(cannot=cannot),
            Constraints(),
        ):
            result = identify(views, np.linspace(0, 1, 10), point, constraints)
            assert all(result.labels[i] == result.labels[j] for i, j in constraints.must)
            assert all(result.labels[i] != result.labels[j] for i, j in constraints.cannot)
            first_starts = [
                start[result.labels == label].min() for label in range(len(result.names))
            ]
            assert first_starts == sorted(first_starts)
            if not (constraints.must or constraints.cannot):
                assert result.labels.tolist() == free.labels.tolist()
    question = identify(views, np.linspace(0, 1, 10), learned_links).questions[0]
    pair = question.pair
    otherwise = Constraints(unsure=((*pair, not question.joined),))  # as it was when it was asked
    asked_again = identify(views, np.linspace(0, 1, 10), learned_links, otherwise).questions
    assert pair in [again.pair for again in asked_again]
    for constraints in (
        Constraints(must=(pair,)),
        Constraints(cannot=(pair,)),
        Constraints(unsure=((*pair, None),)),
        Constraints(unsure=((*pair, question.joined),)),
    ):
        result = identify(views, np.linspace(0, 1, 10), learned_links, constraints)
        assert pair not in [question.pair for question in result.questions]
        assert result.interval is not None
        assert result.interval[0] <= len(result.names) <= result.interval[1]
    chained = Constraints(must=((0, 1), (1, 2)), cannot=((2, 3),))
    same_polyp, different_polyps = chained.closure(4)
    assert same_polyp.astype(int).tolist() == [[1, 1, 1, 0]] * 3 + [[0, 0, 0, 1]]
    assert (different_polyps == ~same_polyp).all()
    with pytest.raises(PolyplinkError, match="two polyps, and by other constraints one"):
        Constraints(must=((0, 1),), cannot=((1, 0),)).closure(2)


def test_an_open_interval_has_a_question_with_the_change_of_its_answer() -> None:
    names = term_names()
    links = LinkModel(-6.0, {name: 12.0 if name == "cosine" else 0.0 for name in names}, 9, 4)
    changing = 0
    # In the last case no answer changes the count; the first question is asked in any case.
    for n, spread, seed in (*((8, 4.0, seed) for seed in range(2)), (6, 2.0, 3)):
        point = OperatingPoint(LearnedLinks(1.0), links, "made up", spread=spread)
        start = 3.0 * np.arange(float(n))
        views = Views(np.random.default_rng(seed).normal(size=(n, 3)), start, start + 1.0)
        result = identify(views, np.linspace(0, 1, n), point)
        assert result.interval is not None
        if result.interval[0] == result.interval[1]:
            continue
        assert result.questions[0].close
        for question in result.questions:
            pairs = (question.pair,)
            constraints = Constraints(cannot=pairs) if question.joined else Constraints(must=pairs)
            count = len(identify(views, np.linspace(0, 1, n), point, constraints).names)
            assert question.change == count - len(result.names)
            open_if_likely_wrong = question.change != 0 or not question.joined
            assert (
                question.close
                or not open_if_likely_wrong
                or question.probability_wrong < NEGLIGIBLE
            )
            changing += question.change != 0
    assert changing


def test_a_decision_that_is_wrong_with_a_negligible_probability_is_no_open_question() -> None:
    # Four polyps; of their pairs, one is likely enough to be one polyp.
    links = LinkModel(0.0, dict.fromkeys(term_names(), 0.0), 9, 4)
    P = np.full((4, 4), NEGLIGIBLE / 2)
    P[0, 1] = P[1, 0] = 2 * NEGLIGIBLE
    np.fill_diagonal(P, 1.0)
    views = Views(np.eye(4), np.arange(4.0), np.arange(4.0) + 0.5)
    point = OperatingPoint(LearnedLinks(0.1), links, "made up", spread=1.0, margin=1, lone=1)
    with patch.object(LinkModel, "probability", lambda *_: P):
        result = identify(views, np.linspace(0, 1, 4), point)
        decided = identify(views, np.linspace(0, 1, 4), point, Constraints(cannot=((0, 1),)))
    assert result.interval == (3, 5)
    assert [question.change for question in result.questions] == [-1] * 6
    assert [question.pair for question in result.questions if question.close] == [(0, 1)]
    # With this answer no question is open, although the count may be another one.
    assert (decided.interval, len(decided.questions)) == ((3, 5), 5)
    assert not any(question.close for question in decided.questions)


def test_a_doubtful_decision_is_a_question_though_clear_ones_would_cost_less_to_change() -> None:
    # Two polyps of four views that may be one, and eight of one view that certainly are not.
    polyps = np.repeat(np.arange(10), [4, 4] + [1] * 8)
    P = np.where(polyps[:, None] == polyps[None, :], 1.0, 1e-4)
    P[:4, 4:8] = P[4:8, :4] = 0.3
    n = len(polyps)
    start = np.arange(float(n))
    views = Views(np.eye(n), start, start + 0.5)
    links = LinkModel(0.0, dict.fromkeys(term_names(), 0.0), 9, 4)
    point = OperatingPoint(LearnedLinks(0.1, 0.5), links, "made up", spread=1.0, margin=1, lone=1)
    with patch.object(LinkModel, "probability", lambda *_: P):
        result = identify(views, np.linspace(0, 1, n), point)
        decided = identify(views, np.linspace(0, 1, n), point, Constraints(cannot=((0, 4),)))
    assert result.labels.tolist() == polyps.tolist()
    (question,) = [question for question in result.questions if question.close]
    assert (question.members, question.others) == ((0, 1, 2, 3), (4, 5, 6, 7))
    # Different: one answer decides, not one for each of the sixteen pairs.
    assert decided.labels.tolist() == polyps.tolist()
    assert not any(question.close for question in decided.questions)


@pytest.mark.parametrize("ask_below", [None, 0.9])
def test_a_pair_is_asked_about_once_and_views_of_one_polyp_stay_together(
    ask_below: float | None,
) -> None:
    # One polyp of five views; the first and the last look least alike.
    P = np.full((5, 5), 0.97)
    P[0, 4] = P[4, 0] = 0.5
    np.fill_diagonal(P, 1.0)
    links = LinkModel(0.0, dict.fromkeys(term_names(), 0.0), 9, 4)
    views = Views(np.eye(5), np.arange(5.0), np.arange(5.0) + 0.5)
    point = OperatingPoint(
        LearnedLinks(1.0), links, "made up", spread=4.0, margin=1, ask_below=ask_below
    )

    def questions_after(*must: tuple[int, int]) -> list[Question]:
        with patch.object(LinkModel, "probability", lambda *_: P):
            result = identify(views, np.linspace(0, 1, 5), point, Constraints(must))
        assert result.labels.tolist() == [0] * 5
        pairs = [frozenset(question.pair) for question in result.questions]
        assert len(pairs) == len({*pairs})
        return result.questions

    questions = questions_after()
    assert (questions[0].pair, questions[0].members, questions[0].close) == ((0, 4), (0,), True)
    must: list[tuple[int, int]] = []
    while questions:  # with every answer, one view fewer is asked about
        must.append(questions[0].pair)
        fewer = questions_after(*must)
        assert len(fewer) < len(questions)
        for question in fewer:
            side = {*question.members}
            assert side | {*question.others} == {*range(5)}
            assert all((i in side) == (j in side) for i, j in must)
        questions = fewer
    assert len(must) == 4


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_tracklets_are_never_one_polyp_without_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Vectors so similar that the clusterer joins even overlapping tracklets.
    vectors = np.array([1.0, 0, 0]) + 0.05 * rng.normal(size=(12, 3))
    start = np.sort(rng.uniform(0, 30, 12))
    views = Views(vectors, start, start + rng.uniform(0.5, 8, 12))
    point, positions = untuned("a test"), start / 40
    unconstrained = point.setting.cluster(visual(vectors, point.form), positions).labels
    together = unconstrained[:, None] == unconstrained[None, :]
    assert (together & views.overlap).any()
    labels = identify(views, positions, point).labels
    same_polyp = labels[:, None] == labels[None, :]
    assert not (same_polyp & views.overlap).any()
    assert not (same_polyp & ~together).any()  # clusters are split, never merged
    without_overlap = ~(together & views.overlap).any(1)
    assert (same_polyp == together)[np.ix_(without_overlap, without_overlap)].all()
    # A person's decision has priority.
    i, j = np.argwhere(views.overlap)[0]
    decided = identify(views, positions, point, Constraints(must=[(int(i), int(j))])).labels
    assert decided[i] == decided[j]
