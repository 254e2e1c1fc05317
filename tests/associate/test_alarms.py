"""The probability that a tracklet shows a polyp: its features, the fit, and the threshold."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from polyplink.associate.alarms import (
    FEATURES,
    AlarmModel,
    fit_alarms,
    tracklet_features,
    with_share,
)
from polyplink.associate.links import NotFitted, logistic
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.tracklets.box_runs import box_rows
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings, TrackSettings
from tests.samples import write_procedures


def test_features_of_each_tracklet_equal_their_definitions(tmp_path: Path) -> None:
    data = read_data(write_procedures(tmp_path, procedures=4, images=False))
    n, rng = data.detections.height, np.random.default_rng(0)
    dx, dy, dw, dh = rng.normal(size=(4, n))
    names = data.procedures["procedure_id"]
    right, down = (
        pl.col("procedure_id").replace_strict(names, by)  # near the four edges of the frame
        for by in ([-9, 18, 0, 0], [0, 0, -7, 18])
    )
    detections = data.detections.with_columns(  # trembling boxes
        x=pl.col("x") + right + dx,
        y=pl.col("y") + down + dy,
        w=pl.col("w") + dw,
        h=pl.col("h") + dh,
        score=pl.Series(rng.random(n)),
        polyp_id=pl.lit(None, pl.String),
    )
    detections = detections.filter(rng.random(n) < 0.9).with_columns(
        # A box without a score counts as annotated.
        score=pl.when(pl.int_range(pl.len()) % 100 > 0).then("score")
    )
    write_data(tmp_path / "d", DataSet.of(detections, data.procedures, data.polyps.clear()))
    settings = PrepareSettings(min_seconds=0.2, tracks=TrackSettings(bridge=0.0))
    prepared = prepare(tmp_path / "d", settings, with_crops=False)
    features = tracklet_features(prepared)
    rows, tracklet = box_rows(prepared.tracklets)
    assert features.height > 20
    assert features["edge"].n_unique() > 2
    for k, values in enumerate(features.rows(named=True)):
        boxes = prepared.detections[rows[tracklet == k]]
        x, y, w, h, f = (boxes[c].to_numpy().astype(float) for c in ("x", "y", "w", "h", "frame"))
        sides, step, n = np.sqrt(w * h), np.diff(f), len(f)
        dx, dy = np.diff(x + w / 2), np.diff(y + h / 2)
        bends = abs(np.diff(dx)) + abs(np.diff(dy))
        if boxes["score"].null_count():
            assert set(values.values()) == {None}
            continue
        score = boxes["score"].to_numpy().astype(float)
        frames = f[-1] - f[0] + 1
        naive = {
            "boxes": np.log(n),
            "seconds": np.log(frames / 25),
            "density": n / frames,
            "runs": np.mean(step == 1),
            "mean_score": score.mean(),
            "best_score": score.max(),
            "score_spread": score.std(ddof=1),
            "size": np.log(sides.mean() / 48),
            "size_spread": np.log(sides).std(ddof=1),
            "size_steps": np.median(abs(np.diff(np.log(sides)))),
            "speed": np.median(np.hypot(dx, dy) / step) / sides.mean(),
            "roughness": np.median(bends if n > 2 else [0.0]) / sides.mean(),
            "edge": np.mean((x <= 1) | (y <= 1) | (x + w >= 46) | (y + h >= 38)),
        }
        assert list(naive) == list(values) == list(FEATURES)
        assert values == pytest.approx(naive, abs=1e-5)
    assert features["boxes"].null_count() > 0


def random_tracklets(
    n: int = 400, seed: int = 0
) -> tuple[pl.DataFrame, np.ndarray, list[str | None]]:
    """Features, unit vectors and polyps: two tracklets per polyp; a third are false alarms."""
    rng = np.random.default_rng(seed)
    real = np.arange(n) % 3 > 0
    X, V = rng.normal(size=(n, len(FEATURES))), rng.normal(size=(n, 20))
    X[real, 0] += 2.5
    V[real, 1] += 2.0
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    polyps = [f"p{i // 3}" if is_polyp else None for i, is_polyp in enumerate(real.tolist())]
    return pl.DataFrame(X, schema=list(FEATURES)), V, polyps


def fitted(
    X: pl.DataFrame, V: np.ndarray, polyps: list[str | None], patients: list[str], keep: float
) -> tuple[AlarmModel, np.ndarray]:
    """The model and the cross-fitted probabilities."""
    return fit_alarms(X, V, polyps, patients, keep, procedures=patients)


def test_the_fit_separates_alarms_from_polyps_of_unseen_patients() -> None:
    X, V, polyps = random_tracklets()
    patients = [f"v{i // 80}" for i in range(len(polyps))]
    model, crossed = fitted(X, V, polyps, patients, keep=0.9)
    stored = json.loads(json.dumps(to_plain(model)))
    assert TypeAdapter(AlarmModel).validate_python(stored) == model
    features, vectors, truth = random_tracklets(seed=1)
    probabilities = model.probability(features, vectors)
    real = np.array([polyp is not None for polyp in truth])
    accepted = probabilities >= model.threshold
    assert accepted[real].mean() > 0.85
    assert accepted[~real].mean() < 0.15
    bins = np.digitize(probabilities, [0.25, 0.5, 0.75])  # probabilities are calibrated
    for k in range(4):
        assert abs(probabilities[bins == k].mean() - real[bins == k].mean()) < 0.15
    assert model.origin.startswith("fitted on 5 patients; cross-fitted, ")
    # Only the first feature and the second component separate the two.
    assert abs(model.features[0]) > 5 * abs(model.features[-1])
    # Cross-fitted probabilities come from the fit, and are missing where a feature is.
    stays = crossed >= model.threshold
    assert stays[[polyp is not None for polyp in polyps]].mean() > 0.85
    unknown = features.with_columns(
        pl.when(pl.int_range(pl.len()) > 0).then("boxes").alias("boxes")
    )
    only_the_first = [True] + [False] * 399
    assert np.isnan(model.probability(unknown, vectors)).tolist() == only_the_first
    assert np.isnan(fitted(unknown, V, polyps, patients, 0.9)[1]).tolist() == only_the_first
    with pytest.raises(PolyplinkError, match="fit it again with `polyplink calibrate`"):
        model.probability(features, vectors[:, :5])


def test_patients_with_appearances_of_their_own_do_not_make_the_vector_count() -> None:
    """The vector identifies the patient, and so all false alarms of the fit, but none of others."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(20), 20)
    real = rng.random(20)[patient] < 0.5  # a patient has polyps or false alarms
    X = rng.normal(size=(400, len(FEATURES)))
    X[real, 0] += 1.5
    V = np.eye(20)[patient] + 0.1 * rng.normal(size=(400, 20))
    polyps = [f"p{i}" if is_polyp else None for i, is_polyp in enumerate(real.tolist())]
    features = pl.DataFrame(X, schema=list(FEATURES))
    by_patient, crossed = fitted(features, V, polyps, [f"v{k}" for k in patient], keep=0.9)
    by_tracklet, too_good = fitted(features, V, polyps, [f"v{i}" for i in range(400)], keep=0.9)
    assert np.linalg.norm(by_patient.vector) < 0.5 * np.linalg.norm(by_tracklet.vector)
    accuracy = [np.mean((p > 0.5) == real) for p in (crossed, too_good)]
    assert accuracy[0] < 0.85 < 0.95 < accuracy[1]


@pytest.mark.parametrize(("appearance", "expected"), [(False, 0.5), (True, 1.0)])
def test_penalty_and_scale_of_the_vector_have_the_lowest_cross_fitted_loss(
    appearance: bool, expected: float
) -> None:
    X, V, polyps = random_tracklets(120)
    real = np.array([polyp is not None for polyp in polyps])
    if not appearance:  # the vector is noise
        V = V[np.random.default_rng(1).permutation(len(V))]
    patients = np.arange(len(polyps)) // 24  # one fold each
    _, crossed = fitted(X, V, polyps, [f"v{k}" for k in patients], keep=0.9)
    losses = {}
    for strength, vector_scale in product((0.1, 1.0), (0.5, 1.0)):
        # Features with variance 1, and a vector with the variance of all features at scale 1.
        parts = [(X.to_numpy(), 1.0), (V, vector_scale * np.sqrt(len(FEATURES) / V.shape[1]))]
        Z = np.hstack([(part - part.mean(0)) / part.std(0) * scale for part, scale in parts])
        naive = np.empty(len(Z))
        for k in range(5):
            weights, intercept = logistic(Z[patients != k], real[patients != k], C=strength)
            naive[patients == k] = 1 / (1 + np.exp(-Z[patients == k] @ weights - intercept))
        loss = -np.log(np.where(real, naive, 1 - naive)).mean()
        losses[loss] = vector_scale, naive
    vector_scale, naive = losses[min(losses)]
    assert vector_scale == expected
    for k in range(5):  # a procedure each, without another
        naive[patients == k] = with_share(naive[patients == k], real.mean())
    np.testing.assert_allclose(crossed, naive, atol=1e-6)


def test_the_threshold_keeps_the_requested_share_of_polyps_and_is_at_most_two_thirds() -> None:
    X, V, polyps = random_tracklets()
    hard = X.with_columns(pl.col("boxes") * 0.1)  # most of the separation is lost
    patients = [f"v{i // 80}" for i in range(len(polyps))]
    thresholds = [
        fitted(features, 0.0 * V, polyps, patients, keep)[0].threshold
        for features, keep in ((X, 0.5), (hard, 0.95), (hard, 1.0))
    ]
    assert thresholds[0] == pytest.approx(2 / 3)
    assert thresholds[0] >= thresholds[1] > thresholds[2]
    few = "^16 of 25 tracklets show a polyp, of 1 patient: both kinds are needed in several$"
    with pytest.raises(NotFitted, match=few):
        fitted(X[:25], V[:25], polyps[:25], ["v0"] * 25, keep=0.9)
    with pytest.raises(NotFitted, match="400 of 400 tracklets show a polyp"):
        fitted(X, V, ["p"] * len(polyps), patients, keep=0.9)
    with pytest.raises(NotFitted, match="there is no tracklet of a detector"):
        fitted(X.clear(), V[:0], [], [], keep=0.9)


def test_the_share_of_a_procedure_is_estimated_from_all_its_tracklets() -> None:
    rng = np.random.default_rng(0)
    for n_polyps, n_alarms in ((5, 200), (100, 100), (200, 5)):
        # Log-odds of tracklets of polyps and of false alarms, if half of them show a polyp.
        is_polyp = np.arange(n_polyps + n_alarms) < n_polyps
        log_odds = rng.normal(np.where(is_polyp, 2.0, -2.0), 2.0)
        chance = 1 / (1 + np.exp(-log_odds))
        adapted = with_share(chance, 0.5)
        naive, share = chance, 0.5
        for _ in range(2000):
            odds = chance / (1 - chance) * share / (1 - share)
            naive = odds / (1 + odds)
            share = (20 * 0.5 + naive.sum()) / (20 + len(naive))
        np.testing.assert_allclose(adapted, naive, atol=1e-5)
        assert (np.diff(adapted[np.argsort(chance)]) >= 0).all()

        def loss(p: np.ndarray, is_polyp: np.ndarray = is_polyp) -> float:
            return float(-np.log(np.where(is_polyp, p, 1 - p)).mean())

        assert loss(adapted) < loss(chance) or n_polyps == n_alarms
    # Unknown probabilities stay unknown and count for nothing; certain ones stay certain.
    np.testing.assert_array_equal(with_share(np.array([np.nan]), 0.5), [np.nan])
    np.testing.assert_allclose(
        with_share(np.array([0.9, np.nan, 0.2]), 0.5)[[0, 2]], with_share(np.array([0.9, 0.2]), 0.5)
    )
    np.testing.assert_allclose(with_share(np.array([0.0, 1.0]), 0.5), [0.0, 1.0], atol=1e-12)


def test_a_record_without_a_share_leaves_probabilities_as_they_are() -> None:
    chance = np.array([0.9, 0.1, 0.1, 0.1])
    model = AlarmModel(0.0, (), (), 0.5, "")
    assert model.of_procedure(chance) is chance
    assert replace(model, share=0.7).of_procedure(chance)[0] < 0.9


def test_groups_of_still_images_are_not_called_patients() -> None:
    X, V, polyps = random_tracklets(60)
    patients = [f"v{i % 5}" for i in range(len(polyps))]
    model, _ = fit_alarms(
        X, V, polyps, patients, 0.9, procedures=patients, material="stills in motion"
    )
    assert model.origin.startswith("fitted on 5 groups of still images; cross-fitted, ")
