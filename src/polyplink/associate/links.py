"""The probability that two tracklets show the same polyp, learned from labelled procedures.

The similarity of vectors alone does not decide whether two tracklets show the same polyp. This
model also uses the time between two views and the number of views in between: it is a logistic
regression on piecewise-linear functions of these, stored as plain numbers. It is fitted in seconds
on procedures with known polyps; `cross_probabilities` computes the probabilities of each procedure
with a model fitted on others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.partition import check_tracklet_count, partition
from polyplink.associate.similarity import cosine, expit, unit_rows
from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import short_repr

Frames = npt.NDArray[np.object_]  # for each tracklet, an array of frame numbers or None

# Knots of the piecewise-linear functions: log of the gap in seconds, log(1 + views in between), and
# the cosine in standard deviations of its procedure.
GAP_KNOTS, BETWEEN_KNOTS, COSINE_KNOTS = (-1.0, 0.0, 1.0, 2.0), (0.5, 1.2, 2.0), (-0.5, 0.5, 1.2)
SHORTEST_GAP = 0.04  # seconds: a frame
USUAL_PAIRS = 3  # weight of the usual cosines beside those of a procedure, in pairs
PENALTY = 10.0  # on the squared weights of standardised terms
RUNS = (2, 3, 4, 6)  # lengths of the runs of tracklets that stand for short recordings
COMMON = 0.7  # size of the component in common of vectors that stand for another camera's
# Terms whose meaning changes with the number of views and the length of a procedure.
TERMS_OF_LENGTH = ("rank of the cosine", "gap as a share")
FOLDS = 20  # at most, in cross-fitting
# Without labels: initial link probabilities by views in between, rounds, and the price of a polyp
# in procedures of up to FEW_TRACKLETS. Chosen on labelled simulated procedures.
START, DECAY, ROUNDS, PRICE, FEW_TRACKLETS = 0.9, 0.75, 3, 5.3, 14.0


@dataclass(frozen=True)
class Views:
    """Vectors and times of the n tracklets of one procedure.

    Attributes:
        vectors: Embeddings (n, d).
        start: Time of each tracklet's first frame (n,), seconds.
        end: Time of each tracklet's last frame (n,), seconds.
        frames: Frames with a box of each tracklet (n,), arrays of rising numbers; None, for all of
            them or in place of an array, if every frame from first to last has one.

    Raises:
        PolyplinkError: If the lengths differ, a time is not finite, or a tracklet ends before it
            begins.
    """

    __repr__ = short_repr

    vectors: npt.NDArray[Any]
    start: Floats
    end: Floats
    frames: Frames | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        sizes = len(self.vectors), len(self.start), len(self.end)
        if len(set(sizes)) != 1:
            raise PolyplinkError(
                "{} vectors, {} starts and {} ends of tracklets".format(*sizes),
                "give one of each per tracklet",
            )
        is_valid = np.isfinite(self.start) & np.isfinite(self.end) & (self.end >= self.start)
        if not is_valid.all():
            raise PolyplinkError(
                f"tracklet {int(np.argmin(is_valid))} has no finite time, or ends before it begins",
                "leave it out",
            )

    @property
    def overlap(self) -> Flags:
        """Whether two tracklets have a box in one frame (n, n), and so show different polyps.

        Tracks of one polyp may alternate: each has boxes only in frames where the other has none.
        """
        together = np.maximum.outer(self.start, self.start) <= np.minimum.outer(self.end, self.end)
        np.fill_diagonal(together, val=False)
        frames = self.frames
        if frames is not None:
            for i, j in np.argwhere(np.triu(together)).tolist():
                a, b = frames[i], frames[j]
                if a is not None and b is not None and not np.isin(a, b).any():
                    together[i, j] = together[j, i] = False
        return np.asarray(together)

    @property
    def n_between(self) -> Floats:
        """Number of tracklets that begin between the beginnings of two tracklets (n, n)."""
        return count_starts_between(self.start, np.sort(self.start))

    def with_common(self, size: float) -> Self:
        """The views with vectors that have a component in common, as those of another camera.

        Pictures of a camera that the encoder was not whitened for look alike to it: a cosine c of
        two tracklets becomes (c + size) / (1 + size).

        Example:
            >>> Views(np.eye(2), np.zeros(2), np.ones(2)).with_common(0.25).vectors
            array([[1. , 0. , 0.5],
                   [0. , 1. , 0.5]])
        """
        unit = unit_rows(self.vectors)
        common = np.full((len(unit), 1), np.sqrt(size))
        return replace(self, vectors=np.concatenate([unit, common], axis=1))

    def take(self, rows: npt.NDArray[np.integer]) -> Self:
        """The views at some rows, in their order."""
        frames = None if self.frames is None else self.frames[rows]
        return replace(
            self,
            vectors=self.vectors[rows],
            start=self.start[rows],
            end=self.end[rows],
            frames=frames,
        )

    @property
    def span(self) -> float:
        """Seconds from the beginning of the first tracklet to the end of the last, at least 1."""
        return max(float(self.end.max() - self.start.min()), 1.0)


def count_starts_between(start: Floats, starts: Floats) -> Floats:
    """Number of times in `starts`, rising, after one and before the other of two in `start` (n, n).

    Example:
        >>> count_starts_between(np.array([1.0, 3.0]), np.array([1.0, 1.0, 2.0, 3.0]))
        array([[0., 1.],
               [1., 0.]])
    """
    before, up_to = (np.searchsorted(starts, start, side) for side in ("left", "right"))
    n_later = np.subtract.outer(before, up_to)  # of the row's beginning, after the column's
    return np.asarray(np.maximum(np.maximum(n_later, n_later.T), 0), dtype=np.float64)


@dataclass(frozen=True)
class UsualCosines:
    """Cosines of two tracklets of one procedure, over the procedures of a fit.

    The few cosines of a short procedure do not show which of them are high: if all its tracklets
    show one polyp, all are.

    Attributes:
        mean: Mean over procedures of their mean cosine.
        spread: Root of the mean over procedures of their mean squared deviation from `mean`.
    """

    mean: float
    spread: float

    @classmethod
    def of(cls, procedures: Sequence[Views]) -> Self | None:
        """The cosines of procedures; None if none has two tracklets.

        Raises:
            PolyplinkError: If a vector is zero or not finite.
        """
        with_pairs = [views for views in procedures if len(views.start) > 1]
        cosines = [_of_pairs(cosine(views.vectors)) for views in with_pairs]
        if not cosines:
            return None
        mean = float(np.mean([values.mean() for values in cosines]))
        variance = np.mean([np.square(values - mean).mean() for values in cosines])
        return cls(mean, float(np.sqrt(variance)))

    def pooled_with(self, cosines: Floats) -> tuple[float, float]:
        """Mean and standard deviation of cosines (m,) and `USUAL_PAIRS` with the usual ones."""
        share = cosines.size / (cosines.size + USUAL_PAIRS)
        mean = share * cosines.mean() + (1 - share) * self.mean
        usual_variance = self.spread**2 + (self.mean - mean) ** 2
        variance = share * np.square(cosines - mean).mean() + (1 - share) * usual_variance
        return float(mean), float(np.sqrt(variance))


def _of_pairs(cosines: Floats) -> Floats:
    """Cosines of the pairs of different tracklets (m,) from the table (n, n)."""
    return np.asarray(cosines[np.triu(np.ones(cosines.shape, dtype=np.bool_), k=1)])


def _terms(
    views: Views, usual: UsualCosines | None = None, *, any_length: bool = False
) -> Iterator[tuple[str, Floats]]:
    """Yield the terms of the log-odds of a link: name and values (n, n).

    Cosines are standardised by those of the procedure and the usual ones, if these are given. With
    `any_length`, the `TERMS_OF_LENGTH` are left out. Tables are deleted as soon as possible: for
    5,000 tracklets, each takes 200 MB.
    """
    n = len(views.start)
    cosines = cosine(views.vectors)
    yield "cosine", cosines
    if not any_length:
        # Mean of the ranks of i among the neighbours of j and of j among those of i, from 0
        # (nearest) to 1.
        off_diagonal = ~np.eye(n, dtype=np.bool_)
        order = np.argsort(np.where(off_diagonal, -cosines, np.inf), kind="stable")
        rank = np.empty((n, n), np.int32)
        np.put_along_axis(rank, order, np.arange(n, dtype=np.int32)[None], axis=1)
        yield TERMS_OF_LENGTH[0], (rank + rank.T) / (2.0 * max(n - 1, 1))
        del order, rank, off_diagonal
    mean = spread = 0.0
    if usual is not None and n > 1:
        mean, spread = usual.pooled_with(_of_pairs(cosines))
    elif n > 2:
        mean, spread = _of_pairs(cosines).mean(), _of_pairs(cosines).std()
    z_scores = (cosines - mean) / spread if spread > 0 else np.zeros((n, n))
    del cosines
    yield "cosine in standard deviations", z_scores
    for knot in COSINE_KNOTS:
        yield f"cosine in standard deviations above {knot}", np.maximum(z_scores - knot, 0.0)
    del z_scores
    seconds = np.subtract.outer(views.start, views.end)
    seconds = np.maximum(np.maximum(seconds, seconds.T), 0.0)
    if not any_length:
        yield TERMS_OF_LENGTH[1], seconds / views.span
    seconds = np.log(seconds + SHORTEST_GAP)
    yield "log gap", seconds
    for knot in GAP_KNOTS:
        yield f"log gap above {knot}", np.maximum(seconds - knot, 0.0)
    del seconds
    log_between = np.log1p(views.n_between)
    yield "log views in between", log_between
    for knot in BETWEEN_KNOTS:
        yield f"log views in between above {knot}", np.maximum(log_between - knot, 0.0)


@dataclass(frozen=True)
class LinkModel:
    """A fitted model of links, as plain numbers.

    Attributes:
        intercept: Log-odds if all terms are 0.
        weights: Coefficients of the terms, by name; of a model for procedures of any length without
            the `TERMS_OF_LENGTH`.
        pairs: Number of different pairs that it was fitted on.
        positives: Number of these pairs that show one polyp.
        usual: The usual cosines of the procedures that it was fitted on; None in weights of
            earlier versions.
    """

    __repr__ = short_repr

    intercept: float
    weights: dict[str, float]
    pairs: int
    positives: int
    usual: UsualCosines | None = None

    def probability(self, views: Views) -> Floats:
        """Probability that two tracklets of a procedure show the same polyp.

        Returns:
            (n, n), symmetric, 0 for tracklets with a box in one frame, 1 on the diagonal.

        Raises:
            PolyplinkError: If a vector is zero or not finite, the model has other terms, or there
                are too many tracklets, see `partition`.
        """
        P = self.likeness(views)
        P[views.overlap] = 0.0
        return P

    def likeness(self, views: Views) -> Floats:
        """`probability`, also for tracklets with a box in one frame: how alike they look.

        Returns:
            (n, n), symmetric, 1 on the diagonal.

        Raises:
            PolyplinkError: As for `probability`.
        """
        check_tracklet_count(len(views.start))
        odds = np.full((len(views.start),) * 2, self.intercept)
        any_length = self.weights.keys().isdisjoint(TERMS_OF_LENGTH)
        for name, values in _terms(views, self.usual, any_length=any_length):
            if name not in self.weights:
                raise PolyplinkError(
                    f"the link model has no term {name!r}", "run `polyplink calibrate`"
                )
            odds += self.weights[name] * values
        P = np.asarray(expit((odds + odds.T) / 2))
        np.fill_diagonal(P, 1.0)
        return P


Labelled = tuple[Views, Sequence[str | None]]
"""A procedure's tracklets, and the polyp of each (n,), None if unknown."""


LabelledPairs = tuple[Floats, Flags]
"""Pairs of tracklets with known polyps: terms (m, t), and whether a pair shows one polyp (m,)."""


def link_terms(
    procedure: Labelled, usual: UsualCosines | None = None, *, any_length: bool = False
) -> LabelledPairs:
    """The pairs of a procedure on which a model is fitted.

    Args:
        procedure: The procedure.
        usual: The usual cosines of the procedures of the fit.
        any_length: Whether to leave out the `TERMS_OF_LENGTH`, because the procedures to be linked
            may be shorter or longer than those of the fit.

    Returns:
        The pairs i < j with known polyps that have no box in the same frame.

    Raises:
        PolyplinkError: If there is not one polyp per tracklet, or a vector is zero or not finite.
    """
    views, polyps = procedure
    if len(polyps) != len(views.start):
        raise PolyplinkError(
            f"{len(polyps)} polyps of {len(views.start)} tracklets",
            "give one per tracklet, None where it is unknown",
        )
    labelled = np.array([polyp is not None for polyp in polyps], dtype=np.bool_)
    usable = np.triu(np.logical_and.outer(labelled, labelled) & ~views.overlap, k=1)
    names = np.asarray(polyps, dtype=object)
    one_polyp = np.equal.outer(names, names).astype(np.bool_)
    terms = [values[usable] for _, values in _terms(views, usual, any_length=any_length)]
    return np.stack(terms, axis=1), one_polyp[usable]


def logistic(
    X: Floats, y: Flags, weight: Floats | None = None, **options: Any
) -> tuple[Floats, float]:
    """Coefficients (t,) and intercept of a logistic regression.

    Args:
        X: Terms (m, t).
        y: Targets (m,).
        weight: Weight of each row (m,); equal by default.
        options: Options of scikit-learn's `LogisticRegression`.
    """
    # Imported when used: it takes a second, and most users of this room do not fit.
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    model = LogisticRegression(**options).fit(X, y, sample_weight=weight)
    return np.asarray(model.coef_[0], np.float64), float(model.intercept_[0])


class NotFitted(Exception):  # noqa: N818 - not a mistake
    """No model can be fitted, because labels are missing or too alike; the message says why."""


Fit = Callable[[Floats, npt.NDArray[Any], float], tuple[Floats, float]]
"""Fits coefficients (t,), intercept to terms (m, t), targets (m,), at a penalty or its inverse."""


def folds_of(patients: Sequence[str], most: int) -> Ints:
    """Fold of each row (n,), at most `most`; the rows of a patient (n,) are in one fold.

    Example:
        >>> folds_of(["ann", "bob", "ann", "cy"], most=2)
        array([0, 1, 0, 0])
    """
    number_of = {patient: number for number, patient in enumerate(dict.fromkeys(patients))}
    return np.array([number_of[patient] % most for patient in patients], dtype=np.int64)


def cross_fit(
    X: Floats, y: npt.NDArray[Any], fold: npt.NDArray[np.integer], fit: Fit, penalty: float
) -> Floats:
    """Linear predictions (m,), each by a model fitted on the rows of the other folds.

    Args:
        X: Terms (m, t).
        y: Targets (m,).
        fold: Fold of each row (m,).
        fit: Fits a model.
        penalty: The penalty or its inverse, for `fit`.
    """
    predicted = np.empty(len(X))
    for tested in np.unique(fold):
        held_out = fold == tested
        weights, intercept = fit(X[~held_out], y[~held_out], penalty)
        predicted[held_out] = X[held_out] @ weights + intercept
    return predicted


def fit_links(
    pairs: Sequence[Sequence[LabelledPairs]],
    usual: UsualCosines | None = None,
    *,
    any_length: bool = False,
) -> LinkModel:
    """Fit a model of links; all entries have equal weight, whatever their number of pairs.

    Args:
        pairs: One list for each procedure, see `link_terms`: first the pairs of its tracklets, then
            the same ones again in runs and variants, which are fitted on but not counted.
        usual: The usual cosines that these pairs were made with.
        any_length: Whether these pairs were made without the `TERMS_OF_LENGTH`.

    Raises:
        NotFitted: If all pairs show one polyp, or none does.
    """
    names = term_names(any_length=any_length)
    n_pairs = sum(of_procedure[0][1].size for of_procedure in pairs)
    n_positives = sum(int(of_procedure[0][1].sum()) for of_procedure in pairs)
    if n_positives == 0:
        raise NotFitted(str(Message("origin.no_pair", {"n": n_pairs})))
    if n_positives == n_pairs:
        raise NotFitted(str(Message("origin.all_pairs", {"n": n_pairs})))
    entries = [entry for of_procedure in pairs for entry in of_procedure]
    terms = np.concatenate([x for x, _ in entries])  # (m, t)
    one_polyp = np.concatenate([y for _, y in entries])  # (m,)
    mean, scale = terms.mean(axis=0), terms.std(axis=0)
    scale[scale == 0] = 1.0
    weight = np.concatenate([np.full(y.size, 1.0 / max(y.size, 1)) for _, y in entries])
    weight *= one_polyp.size / weight.sum()
    options: dict[str, Any] = {"C": 1 / PENALTY, "solver": "newton-cholesky", "tol": 1e-8}
    weights, intercept = logistic((terms - mean) / scale, one_polyp, weight, **options)
    weights /= scale
    return LinkModel(
        intercept=intercept - float(weights @ mean),
        weights=dict(zip(names, weights.tolist(), strict=True)),
        pairs=n_pairs,
        positives=n_positives,
        usual=usual,
    )


def term_names(*, any_length: bool = False) -> tuple[str, ...]:
    """Names of the terms of a link model, in their order; `any_length` as for `link_terms`."""
    two = np.arange(2.0)
    terms = _terms(Views(np.eye(2), two, two), any_length=any_length)
    return tuple(name for name, _ in terms)


def short_runs(procedure: Labelled) -> list[Labelled]:
    """Runs of a procedure's consecutive tracklets, as short recordings would have them.

    Returns:
        Runs of each length in `RUNS` that is shorter than the procedure, half of a run apart.
    """
    views, polyps = procedure
    order = np.argsort(views.start, kind="stable")
    runs: list[Labelled] = []
    for length in RUNS:
        if length >= len(order):
            continue
        for first in range(0, len(order) - length + 1, length // 2):
            rows = order[first : first + length]
            runs.append((views.take(rows), [polyps[row] for row in rows.tolist()]))
    return runs


def cross_probabilities(
    procedures: Sequence[Sequence[Labelled]],
    pairs: Sequence[Sequence[LabelledPairs]],
    usual: UsualCosines | None = None,
    patients: Sequence[str] | None = None,
    *,
    any_length: bool = False,
) -> list[list[Floats]]:
    """Link probabilities of each procedure by a model fitted on procedures of other patients.

    Up to `FOLDS` patients are left out one at a time, more in `FOLDS` groups.

    Args:
        procedures: The procedures, each in one or more variants of its views.
        pairs: Pairs of each procedure, as for `fit_links`.
        usual: The usual cosines that these pairs were made with.
        patients: Patient of each procedure; by default, each is of another.
        any_length: As for `fit_links`.

    Returns:
        The probabilities (n, n) of each variant of each procedure.

    Raises:
        NotFitted: If all procedures are of one patient, and as for `fit_links`.
        PolyplinkError: If a vector is zero or not finite.
    """
    if patients is None:
        patients = [str(number) for number in range(len(procedures))]
    fold = folds_of(patients, FOLDS)
    if procedures and len(np.unique(fold)) == 1:
        message_kind = "origin.one_patient" if len(procedures) > 1 else "origin.one_procedure"
        raise NotFitted(str(Message(message_kind)))
    models = []
    for left_out in range(int(fold.max(initial=-1)) + 1):
        training = [
            of_procedure
            for of_procedure, number in zip(pairs, fold, strict=True)
            if number != left_out
        ]
        models.append(fit_links(training, usual, any_length=any_length))
    numbered = zip(fold.tolist(), procedures, strict=True)
    return [
        [models[left_out].probability(views) for views, _ in variants]
        for left_out, variants in numbered
    ]


def fit_and_cross_fit(
    procedures: Sequence[Sequence[Labelled]],
    *,
    patients: Sequence[str] | None = None,
    any_length: bool = False,
) -> tuple[LinkModel, list[list[Floats]]]:
    """Fit a model of links on procedures, and judge each by a model fitted on other patients.

    Args:
        procedures: The procedures, each in one or more variants of its views.
        patients: Patient of each procedure; by default, each is of another.
        any_length: Whether the procedures to be linked may be shorter or longer than these: the
            models are also fitted on the `short_runs` of every variant, and without the
            `TERMS_OF_LENGTH`.

    Returns:
        The model, and the probabilities of each variant of each procedure from
        `cross_probabilities`.

    Raises:
        NotFitted: As for `cross_probabilities`.
        PolyplinkError: If a vector is zero or not finite, or a procedure has more tracklets than
            `partition` takes.
    """
    fitted_on = [
        [
            labelled
            for variant in variants
            for labelled in (variant, *(short_runs(variant) if any_length else ()))
        ]
        for variants in procedures
    ]
    all_views = [views for group in fitted_on for views, _ in group]
    for views in all_views:
        check_tracklet_count(len(views.start))
    usual = UsualCosines.of(all_views)
    pairs = [
        [link_terms(labelled, usual, any_length=any_length) for labelled in group]
        for group in fitted_on
    ]
    model = fit_links(pairs, usual, any_length=any_length)
    crossed = cross_probabilities(procedures, pairs, usual, patients, any_length=any_length)
    return model, crossed


def unlabelled_price(procedures: Sequence[Views]) -> float:
    """The price of a polyp for procedures without labels.

    A price is weighed against sums over the pairs of a polyp, which grow with the square of its
    number of tracklets. `PRICE` is right for the simulator's `small` procedures, with 12 tracklets
    on average; above `FEW_TRACKLETS`, as in REAL-Colon, the price grows with the square too.

    Args:
        procedures: As for `fit_unlabelled`; their mean number of tracklets decides.

    Example:
        >>> times = np.arange(28.0)
        >>> round(unlabelled_price([Views(np.ones((28, 2)), times, times)]), 1)  # twice as many
        21.2
    """
    tracklets = np.mean([len(views.start) for views in procedures]) if procedures else 0.0
    return PRICE * max(1.0, float(tracklets) / FEW_TRACKLETS) ** 2


def fit_unlabelled(procedures: Sequence[Views]) -> LinkModel:
    """Fit a model of links without labels, from the order of tracklets and their appearance.

    A polyp is mostly seen again before the next one appears. So the initial probability of a link
    decreases with the number of tracklets in between: `START * DECAY ** (views in between)`. Then,
    in turns, partitions give labels and labels give a model (self-training, Yarowsky 1995).
    Tracklets with a box in the same frame stay apart throughout.

    Args:
        procedures: Procedures of two tracklets or more.

    Raises:
        NotFitted: If there is no procedure, or all views of every procedure are joined, or none.
        PolyplinkError: As for `fit_and_cross_fit`.
    """
    if not procedures:
        raise NotFitted(str(Message("origin.one_tracklet")))
    probabilities, price = [], unlabelled_price(procedures)
    for views in procedures:
        check_tracklet_count(len(views.start))
        P = np.where(views.overlap, 0.0, START * DECAY**views.n_between)
        np.fill_diagonal(P, 1.0)
        probabilities.append(P)
    for _ in range(ROUNDS):
        labels = [partition(P, [price])[0].astype(str).tolist() for P in probabilities]
        pairs = [[link_terms(labelled)] for labelled in zip(procedures, labels, strict=True)]
        try:
            model = fit_links(pairs)
        except NotFitted as error:
            reason = Message("origin.without_labels", {"why": str(error)})
            raise NotFitted(str(reason)) from None
        probabilities = [model.probability(views) for views in procedures]
    return model
