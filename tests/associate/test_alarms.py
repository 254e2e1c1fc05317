"""The probability that a tracklet shows a polyp: its features, the fit, and the threshold."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from polyplink.associate.alarms import FEATURES, AlarmModel, fit_alarms, tracklet_features
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.tracklets.box_runs import box_rows
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.simulate.detector import DETECTORS, detect_simulated
from tests.samples import write_procedures


def test_features_equal_their_definitions_tracklet_by_tracklet(tmp_path: Path) -> None:
    data = read_data(write_procedures(tmp_path, procedures=2, images=False))
    preset = replace(DETECTORS["gi-genius"], alarms=60.0, alarms_sd=0.0)
    found = detect_simulated(data, preset, seed=0).drop("truth")
    # A box without a score is an annotated one.
    found = found.with_columns(score=pl.when(pl.int_range(pl.len()) % 100 > 0).then("score"))
    write_data(tmp_path / "d", DataSet.of(found, data.procedures, data.polyps.clear()))
    prepared = prepare(tmp_path / "d", PrepareSettings(min_seconds=0.2), with_crops=False)
    features = tracklet_features(prepared)
    rows, tracklet = box_rows(prepared.tracklets)
    assert features.height > 20
    for k, own in enumerate(features.rows(named=True)):
        boxes = prepared.detections[rows[tracklet == k]]
        x, y, w, h, f = (boxes[c].to_numpy().astype(float) for c in ("x", "y", "w", "h", "frame"))
        side, step, n = np.sqrt(w * h), np.diff(f), len(f)
        dx, dy = np.diff(x + w / 2), np.diff(y + h / 2)
        bent = abs(np.diff(dx)) + abs(np.diff(dy))
        if boxes["score"].null_count():
            assert set(own.values()) == {None}
            continue
        score = boxes["score"].to_numpy().astype(float)
        span = f[-1] - f[0] + 1
        naive = {
            "boxes": np.log(n),
            "seconds": np.log(span / 25),
            "density": n / span,
            "runs": np.mean(step == 1),
            "mean_score": score.mean(),
            "best_score": score.max(),
            "score_spread": score.std(ddof=1),
            "size": np.log(side.mean() / 48),
            "size_spread": np.log(side).std(ddof=1),
            "size_steps": np.median(abs(np.diff(np.log(side)))),
            "speed": np.median(np.hypot(dx, dy) / step) / side.mean(),
            "roughness": np.median(bent if n > 2 else [0.0]) / side.mean(),
            "edge": np.mean((x <= 1) | (y <= 1) | (x + w >= 46) | (y + h >= 38)),
        }
        assert list(naive) == list(own) == list(FEATURES)
        assert own == pytest.approx(naive, abs=1e-5)
    assert features["boxes"].null_count() > 0


def drawn(n: int = 400, seed: int = 0) -> tuple[pl.DataFrame, np.ndarray, list[str | None]]:
    """Features, unit vectors and polyps; a polyp has two tracklets, a third are false alarms."""
    rng = np.random.default_rng(seed)
    real = np.arange(n) % 3 > 0
    X, V = rng.normal(size=(n, len(FEATURES))), rng.normal(size=(n, 20))
    X[real, 0] += 2.5
    V[real, 1] += 2.0
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    polyps = [f"p{i // 3}" if own else None for i, own in enumerate(real.tolist())]
    return pl.DataFrame(X, schema=list(FEATURES)), V, polyps


def test_the_fit_tells_alarms_from_polyps_of_procedures_that_it_did_not_see() -> None:
    X, V, polyps = drawn()
    procedures = [f"v{i // 30}" for i in range(len(polyps))]
    model = fit_alarms(X, V, polyps, procedures, keep=0.9)
    assert isinstance(model, AlarmModel)
    stored = json.loads(json.dumps(to_plain(model)))
    assert TypeAdapter(AlarmModel).validate_python(stored) == model
    features, vectors, truth = drawn(seed=1)
    chance = model.probability(features, vectors)
    real = np.array([polyp is not None for polyp in truth])
    stays = chance >= model.threshold
    assert stays[real].mean() > 0.85
    assert stays[~real].mean() < 0.15
    bins = np.digitize(chance, [0.25, 0.5, 0.75])  # probabilities are calibrated
    assert all(abs(chance[bins == b].mean() - real[bins == b].mean()) < 0.15 for b in range(4))
    assert "cross-fitted" in model.origin
    # The last feature and component carry nothing, and the first of each do.
    assert abs(model.features[0]) > 5 * abs(model.features[-1])
    unknown = features.with_columns(
        pl.when(pl.int_range(pl.len()) > 0).then("boxes").alias("boxes")
    )
    assert np.isnan(model.probability(unknown, vectors)).tolist() == [True] + [False] * 399
    with pytest.raises(PolyplinkError, match="fit it again with `polyplink calibrate`"):
        model.probability(features, vectors[:, :5])


def test_the_threshold_keeps_the_polyps_and_is_never_above_two_thirds() -> None:
    X, V, polyps = drawn()
    hard = X.with_columns(pl.col("boxes") * 0.1)  # most of what tells them apart is lost
    procedures = [f"v{i // 30}" for i in range(len(polyps))]
    thresholds = []
    for features, keep in ((X, 0.5), (hard, 0.8), (hard, 0.95), (hard, 1.0)):
        model = fit_alarms(features, 0.0 * V, polyps, procedures, keep)
        assert isinstance(model, AlarmModel)
        thresholds.append(model.threshold)
    assert thresholds[0] == pytest.approx(2 / 3)
    assert thresholds[1] >= thresholds[2] > thresholds[3]
    few = fit_alarms(X[:25], V[:25], polyps[:25], ["v0"] * 25, keep=0.9)
    assert (
        few == "16 of 25 tracklets show a polyp, in 1 procedures: both kinds are needed in several"
    )
    alone = fit_alarms(X, V, ["p"] * len(polyps), procedures, keep=0.9)
    assert isinstance(alone, str)
    assert "400 of 400 tracklets show a polyp" in alone
    nothing = fit_alarms(X.clear(), V[:0], [], [], keep=0.9)
    assert nothing == "there is no tracklet of a detector"
