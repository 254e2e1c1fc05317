"""The identities of one procedure's tracklets, with confidences and decisions to review.

An operating point holds the clusterer, the link model and their calibration. `identify` applies it
to one procedure, under a reviewer's constraints if any. The result is the polyps, an interval of
their number, the confidence of every tracklet, and the decisions that a reviewer should check.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.alarms import AlarmModel
from polyplink.associate.clusterers import LearnedLinks, TemporalAP
from polyplink.associate.links import LinkModel, Views
from polyplink.associate.partition import (
    TOLERANCE,
    Labels,
    Pairs,
    constraint_groups,
    pair_costs,
    partition,
)
from polyplink.associate.probes import Probe, Reading, read_polyps
from polyplink.associate.similarity import VisualForm, visual
from polyplink.core.arrays import Flags, Floats
from polyplink.core.artefacts import ADDED_LATER, read_plain
from polyplink.core.messages import Message
from polyplink.core.text import short_repr
from polyplink.data.origin import ANNOTATED, BoxSource

Purpose = Literal["published", "count", "link"]
"""What the price of a polyp is chosen for, see `evaluate.choosing.choose`."""

UNTUNED = TemporalAP(alpha=0.5, gamma=1.0, preference=0.0)  # near the middle of the papers' grid
SPREADS = tuple(np.geomspace(1.0, 16.0, 25).tolist())  # factors of the price
MOST_QUESTIONS = 12  # decisions listed for review, per procedure
NEGLIGIBLE = 0.01  # probability of an error below which a decision is no open question
ASK_BELOW = 0.9  # confidence below which a decision is put up for review, if there is no interval
ASKED = 2.0  # factor of the price within which decisions are close, if there is no interval
# Probabilities that represent a clustering without links, and a price that reproduces it.
TOGETHER, APART, KEPT_PRICE = 0.95, 0.05, 0.5


@dataclass(frozen=True)
class Calibration(BoxSource):
    """The data of a calibration: the source of the boxes, and the number of procedures.

    Attributes:
        procedures: Number of labelled procedures.
        views: Largest number of tracklets of a procedure for which the interval holds: that of the
            largest procedure, or, of procedures made of stills, of nine in ten. 0 in weights of
            earlier versions.
        tracklets: Settings of the tracklets, see `box_settings`; None in weights of earlier
            versions.
    """

    procedures: int
    views: int = 0
    tracklets: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class OperatingPoint:
    """A clusterer with its models and calibration.

    Attributes:
        setting: The clusterer; temporal affinity propagation at a fixed setting if no links can be
            fitted.
        links: The link model of learned links; None if none can be fitted.
        origin: A sentence for reports on where the setting and the links come from.
        prices: Price of a polyp by purpose, see `evaluate.choosing.choose`; empty without labels.
        spread: Factor by which the price is raised and lowered for the 90 % interval of a count;
            None if too few procedures are labelled.
        form: Form of the visual similarity, for temporal affinity propagation.
        alarms: Distinguishes false alarms of a detector from polyps; None to count every tracklet
            as a polyp's.
        error: Mean absolute error of the cross-fitted count, in polyps, on the procedures of the
            calibration; None without such procedures.
        size: Probe of the size of a polyp; None if no sizes were known.
        adenoma: Probe of histology; None if no histology was known.
        calibration: The data of the calibration; None without labels, and in weights written before
            it was recorded.
        margin: Polyps by which the interval is widened on either side beyond the counts within the
            spread: for polyps that the detector misses, and for false alarms.
        lone: Polyps by which an interval of a single number is widened on either side, if the
            calibration had too few single numbers, or too many wrong ones, to rely on them.
        missed: Polyps by which the upper end is raised besides, in recordings after a calibration
            on still images.
        ask_below: Confidence below which every link is put up for review; None to review the links
            that may change the count within its interval.
    """

    __repr__ = short_repr

    setting: TemporalAP | LearnedLinks
    links: LinkModel | None
    origin: str
    prices: Mapping[str, float] = field(default_factory=dict)
    spread: float | None = None
    form: VisualForm = "l2"
    alarms: AlarmModel | None = None
    error: float | None = None
    size: Probe | None = None
    adenoma: Probe | None = None
    calibration: Calibration | None = None
    margin: int = 0
    lone: int = 0
    missed: int = field(default=0, metadata=ADDED_LATER)
    ask_below: float | None = None

    @property
    def tolerance(self) -> float:
        """Probability from which a link lowers the cost of a partition."""
        return self.setting.tolerance if isinstance(self.setting, LearnedLinks) else TOLERANCE

    def for_purpose(self, purpose: Purpose) -> Self:
        """The operating point for a purpose; unchanged without prices."""
        if not self.prices:
            return self
        return replace(self, setting=LearnedLinks(self.prices[purpose], self.tolerance))

    def widened(self, low: int, high: int) -> tuple[int, int]:
        """The 90 % interval, from the lowest and highest count within the spread.

        It includes 0 only if a detector's boxes were calibrated on: annotated ones show a polyp.
        """
        margin = self.margin or (self.lone if low == high else 0)
        annotated = self.calibration is not None and self.calibration.boxes == ANNOTATED
        fewest = 1 if annotated else 0
        return max(low - margin, fewest), high + margin + self.missed

    @property
    def most_views(self) -> int | None:
        """Largest number of tracklets that was calibrated for; None without a calibration.

        Weights of earlier versions do not record it: then it is the largest number that the pairs
        of all these procedures together allow.
        """
        if self.calibration is None:
            return None
        if self.calibration.views:
            return self.calibration.views
        if self.links is None:
            return None
        return (1 + math.isqrt(1 + 8 * self.links.pairs)) // 2  # n (n - 1) / 2 pairs of n views

    def exceeded_by(self, n_views: int) -> bool:
        """Whether a procedure has more views than was calibrated for: it has no interval."""
        if self.spread is None or self.most_views is None:
            return False
        return n_views > self.most_views

    def without_interval(self) -> Self:
        """The operating point with questions about every link in doubt in place of an interval."""
        return replace(self, spread=None, ask_below=ASK_BELOW)

    @property
    def probes(self) -> list[Probe]:
        """The probes of size and histology, without missing ones."""
        return [probe for probe in (self.size, self.adenoma) if probe is not None]

    def read(self, vectors: npt.ArrayLike, polyps: npt.NDArray[np.integer]) -> list[Reading]:
        """Size and histology of polyps from their tracklets' vectors, see `read_polyps`."""
        return read_polyps(self.size, self.adenoma, vectors, polyps)


def untuned(reason: str | Message) -> OperatingPoint:
    """The operating point without labels: a fixed setting and no probabilities."""
    return OperatingPoint(UNTUNED, None, str(Message("origin.untuned", {"why": reason})))


def recorded_point(record: Mapping[str, Any] | None) -> OperatingPoint:
    """The operating point stored in weights or in count.json."""
    if record is None:
        return untuned(Message("origin.no_point"))
    return read_plain(
        OperatingPoint,
        {"links": None, **record} if isinstance(record, Mapping) else record,
        "the record of the weights has a broken operating point",
        "write a new one with `polyplink calibrate`",
    )


@dataclass(frozen=True)
class Constraints:
    """A reviewer's decisions about pairs of tracklets, by row.

    Attributes:
        must: Pairs that show the same polyp.
        cannot: Pairs that show different polyps.
        unsure: Pairs reviewed without a decision, and whether they were joined then (None if that
            is not known). They are not put up for review again while that stays so.
    """

    must: Pairs = ()
    cannot: Pairs = ()
    unsure: tuple[tuple[int, int, bool | None], ...] = ()

    def closure(self, n: int) -> tuple[Flags, Flags]:
        """Pairs of n tracklets (n, n) that show the same polyp, and pairs that show different ones.

        Consequences of several constraints are included: if a and b show the same polyp, and b and
        c different ones, so do a and c.

        Raises:
            PolyplinkError: If a pair refers to no row, or constraints contradict each other.
        """
        groups = constraint_groups(n, self.must, self.cannot)
        apart = np.zeros((n, n), dtype=np.bool_)  # by group
        for i, j in self.cannot:
            apart[groups[i], groups[j]] = apart[groups[j], groups[i]] = True
        return groups[:, None] == groups[None, :], apart[np.ix_(groups, groups)]


@dataclass(frozen=True)
class Question:
    """A decision to review: do `members` and `others` show the same polyp?

    Attributes:
        members: Rows of the tracklets on one side: a cluster, or one tracklet of it, with those
            that show its polyp by the constraints.
        others: Rows of the tracklets on the other side: the rest of that cluster, or another one.
        joined: The decision: whether the two sides were joined.
        probability: Mean probability that the two sides show the same polyp.
        pair: A row of each side to show to the reviewer: the least probable pair if the sides were
            joined, the most probable one if not.
        close: Whether a reviewer should check it: the decision changes while the price of a polyp
            varies within the interval of the count; or the interval has more than one number, the
            sides are separate or the opposite decision changes the count, and the decision is wrong
            with a probability of at least `NEGLIGIBLE`. With `OperatingPoint.ask_below`: whether
            its confidence is below that.
        change: Change of the count under the opposite decision, in polyps; 0 if the interval is a
            single number; None if it was not computed.
    """

    members: tuple[int, ...]
    others: tuple[int, ...]
    joined: bool
    probability: float
    pair: tuple[int, int]
    close: bool = True
    change: int | None = 0

    @property
    def probability_wrong(self) -> float:
        """Probability that the decision is wrong."""
        return 1.0 - self.probability if self.joined else self.probability

    @property
    def confidence(self) -> float:
        """Probability that the decision is right."""
        return 1.0 - self.probability_wrong


@dataclass(frozen=True)
class Identities:
    """The polyps of one procedure's n tracklets.

    Attributes:
        labels: Polyp of every tracklet (n,), numbered by first appearance in time.
        converged: Whether the clusterer converged.
        scores: Confidence of every tracklet's assignment (n,), see `link_scores`.
        questions: Decisions to review, those that may be wrong first; of each kind, those nearest
            to changing the count first.
        interval: Lowest and highest number of polyps, 90 %; None if unknown.
        similarity: The similarities that were clustered (n, n).
    """

    __repr__ = short_repr

    labels: Labels
    converged: bool
    scores: Floats
    questions: list[Question]
    interval: tuple[int, int] | None
    similarity: Floats

    @property
    def names(self) -> list[str]:
        """Name of every polyp: "P1", ..."""
        return [f"P{i + 1}" for i in range(int(self.labels.max(initial=-1)) + 1)]


def identify(
    views: Views,
    positions: npt.ArrayLike,
    point: OperatingPoint,
    decided: Constraints | None = None,
) -> Identities:
    """Link one procedure's tracklets at an operating point.

    Args:
        views: The n tracklets, at least one.
        positions: Positions in the procedure (n,), in [0, 1], for temporal affinity propagation.
        point: The operating point.
        decided: Constraints. Without learned links, the clustering changes only to satisfy them,
            and to separate tracklets with a box in one frame, unless the constraints join these.

    Raises:
        PolyplinkError: If a vector is zero or not finite, or constraints contradict each other.
    """
    constraints = decided or Constraints()
    clusters, converged, similarity = _clusters(views, positions, point, constraints)
    setting, P, interval = point.setting, None, None
    if isinstance(setting, LearnedLinks):
        P = similarity
        if point.exceeded_by(len(P)):
            point = point.without_interval()
        if point.spread is not None:
            factors = [factor for factor in SPREADS if factor <= point.spread]
            low, high = count_intervals(P, setting, factors, constraints)
            interval = point.widened(int(low[-1]), int(high[-1]))
    order = np.lexsort((np.arange(clusters.size), views.start))
    places = {label: i for i, label in enumerate(dict.fromkeys(clusters[order].tolist()))}
    labels = np.array([places[label] for label in clusters.tolist()], dtype=np.int32)
    questions = [] if P is None else _questions(labels, P, point, interval, constraints)
    return Identities(labels, converged, link_scores(labels, P), questions, interval, similarity)


def count_polyps(
    views: Views, positions: npt.ArrayLike, point: OperatingPoint, decided: Constraints
) -> int:
    """Number of polyps that `identify` finds, without questions and an interval.

    Args:
        views: The n tracklets; may be none.
        positions: As for `identify`.
        point: The operating point.
        decided: Constraints.

    Raises:
        PolyplinkError: As for `identify`.
    """
    if not len(views.start):
        return 0
    return np.unique(_clusters(views, positions, point, decided)[0]).size


def _clusters(
    views: Views, positions: npt.ArrayLike, point: OperatingPoint, constraints: Constraints
) -> tuple[Labels, bool, Floats]:
    """Cluster of every tracklet (n,), whether this converged, and what was clustered (n, n)."""
    setting = point.setting
    if isinstance(setting, LearnedLinks):
        assert point.links is not None
        P = point.links.probability(views)
        return _partition(P, setting, constraints), True, P
    V = visual(views.vectors, point.form)
    clustered = setting.cluster(V, positions)
    clusters = clustered.labels
    together = clusters[:, None] == clusters[None, :]
    if constraints.must or constraints.cannot or (together & views.overlap).any():
        agreement = np.where(together, TOGETHER, APART)
        agreement[views.overlap] = 0.0  # visible at the same time: different polyps
        clusters = partition(agreement, [KEPT_PRICE], constraints.must, constraints.cannot)[0]
    return clusters, clustered.converged, setting.similarity(V, positions)


def _questions(
    labels: Labels,
    P: Floats,
    point: OperatingPoint,
    interval: tuple[int, int] | None,
    constraints: Constraints,
) -> list[Question]:
    """The decisions of learned links to review, the most important first."""
    setting, ask_below = point.setting, point.ask_below
    assert isinstance(setting, LearnedLinks)
    spread = point.spread or ASKED

    def may_be_open(question: Question) -> bool:
        if ask_below is not None:
            return question.confidence < ask_below
        return question.close or question.probability_wrong >= NEGLIGIBLE

    def change(question: Question) -> int:
        return _change(labels, P, setting, constraints, question)

    # Those that may be open questions first, each in their order. A pair is asked about once: each
    # of its tracklets may be the one that least belongs with the other.
    possible = possible_questions(labels, P, setting, spread=spread, decided=constraints)
    by_pair: dict[frozenset[int], Question] = {}
    for question in sorted(possible, key=lambda question: not may_be_open(question)):
        by_pair.setdefault(frozenset(question.pair), question)
    questions = [*by_pair.values()]
    if ask_below is not None:
        n_doubtful = sum(map(may_be_open, questions))
        listed = questions[: max(MOST_QUESTIONS, n_doubtful)]
        listed = [replace(question, close=may_be_open(question)) for question in listed]
        head = [replace(question, change=change(question)) for question in listed[:MOST_QUESTIONS]]
        return head + [replace(question, change=None) for question in listed[MOST_QUESTIONS:]]
    listed = questions[:MOST_QUESTIONS]
    if interval is None:
        return [replace(question, change=None) for question in listed]
    if interval[0] == interval[1]:
        return listed
    # The first is reviewed even if it leaves the count as it is, because this is not certain. So
    # are separate polyps: if one pair of their views shows one polyp, all do.
    with_change = [replace(question, change=change(question)) for question in listed]
    return [
        replace(
            question,
            close=question.close
            or (
                question.probability_wrong >= NEGLIGIBLE
                and (question.change != 0 or not question.joined or not i)
            ),
        )
        for i, question in enumerate(with_change)
    ]


def _partition(P: Floats, setting: LearnedLinks, constraints: Constraints) -> Labels:
    """Polyp of each tracklet (n,) under a setting and constraints."""
    must, cannot = constraints.must, constraints.cannot
    (labels,) = partition(P, [setting.price], must, cannot, tolerance=setting.tolerance)
    return np.asarray(labels)


def _change(
    labels: Labels, P: Floats, setting: LearnedLinks, constraints: Constraints, question: Question
) -> int:
    """Change of the count, in polyps, if the pair of a question were decided the other way."""
    must, cannot = [*constraints.must], [*constraints.cannot]
    (cannot if question.joined else must).append(question.pair)
    return int(_partition(P, setting, Constraints(must, cannot)).max() - labels.max())


def count_intervals(
    P: Floats,
    setting: LearnedLinks,
    factors: Sequence[float],
    decided: Constraints | None = None,
    weights: Floats | None = None,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Lowest and highest count (m,), (m,) while the price varies by up to each rising factor."""
    constraints, scale = decided or Constraints(), np.asarray(factors)
    prices = setting.price * np.concatenate([scale, scale**-1.0])
    counts_up, counts_down = (
        partition(
            P,
            prices,
            constraints.must,
            constraints.cannot,
            weights=weights,
            tolerance=setting.tolerance,
        )
        .max(axis=1)
        .reshape(2, -1)
    )
    low, high = np.minimum(counts_up, counts_down), np.maximum(counts_up, counts_down)
    return np.minimum.accumulate(low) + 1, np.maximum.accumulate(high) + 1


def link_scores(labels: Labels, P: Floats | None) -> Floats:
    """Confidence of the assignment of every tracklet, in [0, 1].

    Args:
        labels: Cluster of every tracklet (n,).
        P: Probability that two tracklets show the same polyp (n, n), or None without a link model.

    Returns:
        (n,): the mean P to the other tracklets of its cluster; for a cluster of one tracklet, 1
        minus the largest mean P to the tracklets of another cluster (1 if there is none), as in
        the questions about it (`Question`). NaN without a link model.
    """
    n = labels.size
    if P is None:
        return np.full(n, np.nan)
    clusters = labels[:, None] == np.unique(labels)  # (n, clusters)
    sums = np.where(np.eye(n, dtype=bool), 0.0, P) @ clusters  # of P to the other tracklets
    n_mates = clusters.sum(axis=0) - clusters  # (n, clusters), without the tracklet itself
    means = sums / np.maximum(n_mates, 1)
    within = np.where(clusters, means, 0.0).sum(axis=1)  # (n,)
    between = np.where(clusters, 0.0, means).max(axis=1, initial=0.0)
    is_lone = np.where(clusters, n_mates, 0).sum(axis=1) == 0
    return np.asarray(np.where(is_lone, 1.0 - between, within))


def possible_questions(
    labels: Labels,
    P: Floats,
    setting: LearnedLinks,
    *,
    spread: float = ASKED,
    decided: Constraints | None = None,
) -> list[Question]:
    """The decisions to review, those nearest to changing the count first.

    Two kinds of decision are compared: that a tracklet (with those that show its polyp by the
    constraints) belongs to its cluster, and that two clusters are separate. They are sorted by the
    cost of giving the tracklet a separate polyp, or of merging the clusters (see `partition`): a
    low cost means a close decision.

    Args:
        labels: Cluster of every tracklet (n,): a partition of low cost under the constraints.
        P: Probability that two tracklets show the same polyp (n, n).
        setting: The clusterer.
        spread: Factor of the price, for `Question.close`.
        decided: The reviewer's constraints; decisions that follow from them are left out. So are
            clusters of which one pair of tracklets shows different polyps.

    Returns:
        The decisions, ties by rows.
    """
    clusters = [tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]
    sides = [(a, b, False) for a, b in combinations(clusters, 2)]
    constraints = decided or Constraints()
    together, apart = constraints.closure(len(P))
    for cluster in clusters:
        units = [*dict.fromkeys(tuple(j for j in cluster if together[i, j]) for i in cluster)]
        # If there are two, both stand for the same decision: list it once.
        for unit in units[:1] if len(units) == 2 else units:
            if mates := tuple(j for j in cluster if j not in unit):
                sides.append((unit, mates, True))
    unsure, questions = np.zeros_like(apart), []
    price, costs = setting.price, pair_costs(P, tolerance=setting.tolerance)
    for i, j, was_joined in constraints.unsure:
        if was_joined in (None, labels[i] == labels[j]):
            unsure[i, j] = unsure[j, i] = True
    for members, second, joined in sides:
        block = np.ix_(members, second)
        # One pair that shows different polyps decides that two clusters are separate.
        if unsure[block].all() or apart[block].any():
            continue
        cost = float(costs[block].sum())  # of having the two sides in one cluster
        close = cost > price / spread if joined else cost < price * spread
        scores = np.where(unsure[block], -np.inf, (-1.0 if joined else 1.0) * P[block])
        a, b = np.unravel_index(int(scores.argmax()), scores.shape)
        pair = members[int(a)], second[int(b)]
        question = Question(members, second, joined, float(P[block].mean()), pair, close)
        change = cost - price  # of the total cost when the two sides are joined
        questions.append((-change if joined else change, question))
    questions.sort(key=lambda entry: (entry[0], entry[1].members, entry[1].others))
    return [question for _, question in questions]
