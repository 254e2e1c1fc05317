"""False alarms: the probability that a detector's tracklet shows a polyp.

A logistic regression on a tracklet's duration, the share of its frames with a box, the detector's
scores, the size and motion of its boxes, and its vector (its appearance). The regression and a
threshold are fitted on tracklets with a polyp known from annotated boxes, and stored as plain
numbers. How many of a procedure's tracklets show a polyp is estimated from all of them together:
where most are false alarms, as in long stretches without a polyp, each is more likely one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from polyplink.associate.links import NotFitted, cross_fit, folds_of, logistic
from polyplink.associate.similarity import expit
from polyplink.core.arrays import Flags, Floats
from polyplink.core.artefacts import ADDED_LATER
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message, text_of
from polyplink.core.text import many
from polyplink.data.origin import Material
from polyplink.tracklets.box_runs import USUAL_FPS, box_rows
from polyplink.tracklets.prepare import Prepared

COST = 2.0  # of keeping a false alarm, relative to dropping a tracklet of a polyp
EQUAL_COST = COST / (1 + COST)  # probability of showing a polyp at which both cost the same
FOLDS = 10
SHARE_WEIGHT = 20.0  # tracklets of a procedure that the share of the calibration counts as
SHARE_STEPS, SHARE_PRECISION = 1000, 1e-7  # of estimating the share
# To choose from: inverse strengths of the penalty, and the standard deviation of the vector
# relative to that of the features. False alarms on few images need a strong penalty, because a
# vector identifies an image.
STRENGTHS, VECTOR_SCALES = (0.1, 1.0), (0.5, 1.0)
FEATURES = (
    "boxes",  # logarithm of the number of boxes
    "seconds",  # logarithm of the duration
    "density",  # boxes per frame spanned: 1 minus the share of frames without a box
    "runs",  # share of steps from box to box that are one frame long
    "mean_score",
    "best_score",
    "score_spread",  # standard deviation
    "size",  # logarithm of the mean side, in frame widths
    "size_spread",  # standard deviation of the logarithm of the side
    "size_steps",  # median change of that logarithm from box to box
    "speed",  # median, in box sides per frame
    "roughness",  # median second difference of the centre, in box sides
    "edge",  # share of boxes that touch an edge of the frame
)
"""Features of a tracklet for the regression; a box's side is the square root of its area."""


def tracklet_features(prepared: Prepared) -> pl.DataFrame:
    """The `FEATURES` of tracklets with a detector's boxes.

    Args:
        prepared: t tracklets.

    Returns:
        (t rows) Float64; null in the rows of tracklets that have a known polyp or a box without a
        score: these are annotated, and no false alarms.
    """
    rows, tracklet = box_rows(prepared.tracklets)
    rates = prepared.data.procedures.select("procedure_id", "fps", "width", "height")
    return box_features(
        prepared.detections.drop("image")[rows]
        .with_columns(tracklet=pl.Series(tracklet))
        .join(rates, "procedure_id", maintain_order="left")
    )


def box_features(boxes: pl.DataFrame) -> pl.DataFrame:
    """The `FEATURES` of tracklets from their boxes, see `tracklet_features`.

    Args:
        boxes: Columns tracklet, frame, x, y, w, h, score, polyp_id, and fps, width and height of
            the procedure. The boxes of each tracklet are sorted by frame.
    """
    x, y, w, h, frame = (pl.col(name).cast(pl.Float64) for name in ("x", "y", "w", "h", "frame"))
    boxes = boxes.with_columns(
        frame=frame,
        side=(w * h).sqrt(),
        step=frame.diff().over("tracklet"),
        across=(x + w / 2).diff().over("tracklet"),
        down=(y + h / 2).diff().over("tracklet"),
        edge=(x <= 1) | (y <= 1) | (x + w >= pl.col("width") - 2) | (y + h >= pl.col("height") - 2),
    )
    side, score = pl.col("side"), pl.col("score").cast(pl.Float64)
    span = pl.col("frame").max() - pl.col("frame").min() + 1
    log_side = side.log()
    distance = (pl.col("across") ** 2 + pl.col("down") ** 2).sqrt() / pl.col("step")
    turning = pl.col("across").diff().abs() + pl.col("down").diff().abs()
    features = boxes.group_by("tracklet", maintain_order=True).agg(
        boxes=pl.len().log(),
        seconds=(span / pl.col("fps").first().fill_null(USUAL_FPS)).log(),
        density=pl.len() / span,
        runs=(pl.col("step") == 1).mean(),
        mean_score=score.mean(),
        best_score=score.max(),
        score_spread=score.std(),
        size=(side.mean() / pl.col("width").first()).log(),
        size_spread=log_side.std(),
        size_steps=log_side.diff().abs().median(),
        speed=distance.median() / side.mean(),
        roughness=turning.median() / side.mean(),
        edge=pl.col("edge").mean(),
        scored=score.is_not_null().all() & pl.col("polyp_id").is_null().all(),
    )
    return features.select(
        pl.when("scored").then(pl.col(name).cast(pl.Float64).fill_null(0.0)).alias(name)
        for name in FEATURES
    )


@dataclass(frozen=True)
class AlarmModel:
    """A fitted logistic regression and its threshold, as plain numbers.

    Attributes:
        intercept: Log-odds if all features and the vector are 0.
        features: Coefficient of each of `FEATURES` in the log-odds.
        vector: Coefficient of each component of the unit vector (d,) in the log-odds.
        threshold: Tracklets with a lower probability are false alarms.
        origin: A sentence for reports on the data it was fitted on and its cross-fitted results.
        share: Share of the fitted tracklets that show a polyp, above 0 and below 1; None in weights
            of earlier versions.
    """

    intercept: float
    features: tuple[float, ...]
    vector: tuple[float, ...]
    threshold: float
    origin: str
    share: Annotated[float | None, Field(gt=0, lt=1)] = field(default=None, metadata=ADDED_LATER)

    def probability(self, features: pl.DataFrame, vectors: npt.ArrayLike) -> Floats:
        """Probability that each tracklet shows a polyp (t,); NaN if one of its features is null.

        Args:
            features: (t rows), from `tracklet_features`.
            vectors: (t, d) unit vectors of the same tracklets.

        Raises:
            PolyplinkError: If there are more or fewer features, or the vectors are longer or
                shorter, than when the model was fitted.
        """
        X, V = features.to_numpy(), np.asarray(vectors, np.float64)  # t f, t d
        if X.shape[1:] != (len(self.features),) or V.shape != (len(X), len(self.vector)):
            raise PolyplinkError(
                f"a model of false alarms for {len(self.features)} features and vectors of length "
                f"{len(self.vector)} does not fit features {X.shape} and vectors {V.shape}",
                "fit it again with `polyplink calibrate`",
            )
        odds = self.intercept + X @ np.asarray(self.features) + V @ np.asarray(self.vector)
        return expit(odds)

    def of_procedure(self, chance: Floats) -> Floats:
        """Probabilities that tracklets of one procedure show a polyp, given all of them.

        Args:
            chance: From `probability`, (n,); all tracklets of the procedure.

        Returns:
            (n,), see `with_share`; unchanged if `share` is None.
        """
        return chance if self.share is None else with_share(chance, self.share)


def with_share(chance: Floats, share: float) -> Floats:
    """Probabilities for a procedure with another share of tracklets that show a polyp.

    The share and the probabilities given it are estimated in turn (Saerens et al. 2002, "Adjusting
    the outputs of a classifier to new a priori probabilities", eq. 2.4), starting from the share
    of the calibration, which counts as `SHARE_WEIGHT` further tracklets.

    Args:
        chance: Probability that each tracklet of a procedure shows a polyp (n,), if the share of
            those that do is `share`; NaN if it is unknown.
        share: Share of the tracklets of the calibration that show a polyp, above 0 and below 1.

    Returns:
        (n,); NaN where `chance` is.

    Example:
        >>> with_share(np.array([0.9, 0.1, 0.1]), 0.8).round(2)
        array([0.86, 0.07, 0.07])
        >>> with_share(np.array([0.9] + [0.1] * 40), 0.8).round(2)[:2]
        array([0.46, 0.01])
    """
    is_known = ~np.isnan(chance)
    adapted = chance[is_known]
    clipped = np.clip(adapted, np.finfo(float).tiny, 1 - np.finfo(float).eps)
    log_odds = np.log(clipped) - np.log1p(-clipped)
    log_odds_of_share = math.log(share) - math.log1p(-share)
    estimate = share
    for _ in range(SHARE_STEPS):
        adapted = expit(log_odds + math.log(estimate) - math.log1p(-estimate) - log_odds_of_share)
        before = estimate
        estimate = (SHARE_WEIGHT * share + float(adapted.sum())) / (SHARE_WEIGHT + adapted.size)
        if abs(estimate - before) < SHARE_PRECISION:
            break
    result = chance.copy()
    result[is_known] = adapted
    return result


def fit_alarms(
    features: pl.DataFrame,
    vectors: npt.ArrayLike,
    polyps: Sequence[str | None],
    patients: Sequence[str],
    keep: float,
    *,
    procedures: Sequence[str],
    material: Material | None = None,
) -> tuple[AlarmModel, Floats]:
    """Fit the probability that a tracklet shows a polyp, and the threshold.

    L2-penalised logistic regression on standardised features and the vector. The strength of the
    penalty and the scale of the vector are those with the lowest log loss in cross-fitting: of
    probabilities by models that were fitted on other patients. The threshold is 2/3, which weighs a
    kept false alarm as much as two dropped tracklets of polyps, or lower if otherwise less than a
    share `keep` of the polyps would keep a tracklet in cross-fitting.

    Args:
        features: (t rows) from `tracklet_features`; rows with null are left out.
        vectors: (t, d) unit vectors.
        polyps: (t,) polyp of each tracklet, None for a false alarm.
        patients: (t,) patient of each tracklet: what one of them looks like tells about its others.
        keep: Share of the polyps that must keep a tracklet, above 0 and at most 1.
        procedures: (t,) procedure of each tracklet, for `with_share`.
        material: What the boxes are of, for the record: patients of stills in motion are groups of
            still images.

    Returns:
        The model, and the cross-fitted probability of each tracklet (t,), given all tracklets of
        its procedure; NaN in rows with null.

    Raises:
        NotFitted: If there are too few patients, or only polyps or only false alarms.
    """
    usable = features.select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    X, V = features.to_numpy()[usable], np.asarray(vectors, np.float64)[usable]  # t f, t d
    names = np.asarray(polyps, dtype=object)[usable]
    fitted_patients = np.asarray(patients, dtype=str)[usable].tolist()
    n_patients = len(set(fitted_patients))
    is_polyp = np.asarray([name is not None for name in names], dtype=np.bool_)
    fold = folds_of(fitted_patients, FOLDS)
    for test_fold in np.unique(fold):
        if len(set(is_polyp[fold != test_fold])) < 2:
            kinds = f"{int(is_polyp.sum())} of {many(is_polyp.size, 'tracklet')} show a polyp"
            of_patients = f"of {many(n_patients, 'patient')}: both kinds are needed in several"
            raise NotFitted(f"{kinds}, {of_patients}")
    if not is_polyp.size:
        raise NotFitted("there is no tracklet of a detector")

    # Penalty and scale of the vector by cross-fitting.
    values = np.concatenate([X, V], axis=1)  # t f+d
    centre, scale = values.mean(0), values.std(0)
    scale[scale == 0] = 1.0
    scale[X.shape[1] :] *= math.sqrt(V.shape[1] / X.shape[1])  # the total variance of the features
    trials = []
    for strength, vector_scale in product(STRENGTHS, VECTOR_SCALES):
        scale_tried = scale.copy()
        scale_tried[X.shape[1] :] /= vector_scale
        Z = (values - centre) / scale_tried
        crossed_odds = cross_fit(Z, is_polyp, fold, _regression, strength)
        loss = float(np.logaddexp(0.0, np.where(is_polyp, -crossed_odds, crossed_odds)).mean())
        trials.append((loss, strength, scale_tried, Z, expit(crossed_odds)))
    _, strength, scale, Z, crossed = min(trials, key=lambda trial: trial[0])
    share = float(is_polyp.mean())
    of_procedures = np.asarray(procedures, dtype=str)[usable]
    for procedure in np.unique(of_procedures):
        rows = of_procedures == procedure
        crossed[rows] = with_share(crossed[rows], share)

    # The threshold, and the model of all tracklets in units of the features.
    best = (
        pl.DataFrame({"polyp": names[is_polyp], "p": crossed[is_polyp]})
        .group_by("polyp")
        .max()["p"]
    )
    lowest = best.sort(descending=True)[math.ceil(keep * best.len()) - 1]
    threshold = min(EQUAL_COST, lowest)
    weights, intercept = _regression(Z, is_polyp, strength)
    linear = weights / scale
    f = X.shape[1]
    stays = crossed >= threshold
    numbers = {
        "polyps": (best >= threshold).sum(),
        "all_polyps": best.len(),
        "tracklets": (stays & is_polyp).sum(),
        "all_tracklets": is_polyp.sum(),
        "alarms": (stays & ~is_polyp).sum(),
        "all_alarms": (~is_polyp).sum(),
    }
    kept_message = Message(
        "origin.alarms_kept", {name: int(number) for name, number in numbers.items()}
    )
    groups_of = "origin.alarms_of_stills" if material == "stills in motion" else "origin.alarms"
    model = AlarmModel(
        intercept - float(linear @ centre),
        tuple(linear[:f].tolist()),
        tuple(linear[f:].tolist()),
        threshold,
        text_of([Message(groups_of, {"n": n_patients}), kept_message]),
        share,
    )
    of_all = np.full(usable.size, np.nan)
    of_all[usable] = crossed
    return model, of_all


def _regression(Z: Floats, real: Flags, strength: float) -> tuple[Floats, float]:
    return logistic(Z, real, C=strength, max_iter=1000)
