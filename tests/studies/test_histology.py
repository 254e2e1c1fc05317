"""Are simulated adenomas distinguishable, but not trivially? Run by `make study`: minutes.

Reference: on real tracklets frozen foundation models distinguish adenomas with an accuracy of 0.62
to 0.76, the best trained encoder with 0.82 (NTSSL, arXiv 2605.12320, table 1).
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyplink.core.arrays import Floats
from polyplink_lab.simulate.colon.tissue import draw_tissue
from polyplink_lab.simulate.plan import boxes_of, plan_procedure
from polyplink_lab.simulate.presets import smoke
from polyplink_lab.simulate.procedure_specs import procedure_specs
from polyplink_lab.simulate.rendering import SimulatedProcedure

PATIENTS = 100
VIEWS, SIZE = 6, 128  # crops of a polyp, pixels
AROUND = 2.0  # side of a crop divided by the longer side of its box
RINGS = (1, 2, 3, 4.5, 6.5, 9, 13, 18, 25, 32)  # waves per half a crop


def polyps() -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int64]]:
    """Crops (n, v, h, w, 3) of polyps of many patients, adenoma or not (n,), and patient (n,)."""
    names = tuple((f"{1 + k // 50:03d}-{1 + k % 50:03d}", 2) for k in range(PATIENTS))
    preset = replace(smoke(), name="histology", polyps=names, width=320, height=256, pair_share=0.0)
    crops, adenoma, patients = [], [], []
    for patient, spec in enumerate(procedure_specs(preset, 0)):
        plan = plan_procedure(preset, 0, spec)
        procedure, boxes = SimulatedProcedure.of(plan, 0), boxes_of(plan)
        for index, polyp in enumerate(spec.polyps):
            boxes_of_polyp = boxes.filter(boxes["polyp"] == index)
            if (
                polyp.histology_class not in {"AD", "HP", "SSL", "TSA"}
                or boxes_of_polyp.height < VIEWS
            ):
                continue
            chosen = boxes_of_polyp.gather(
                np.linspace(0, boxes_of_polyp.height - 1, VIEWS).round().astype(int)
            )
            x, y, w, h = (chosen[name].to_numpy() for name in "xywh")
            middle, half = np.stack([x + w / 2, y + h / 2], 1), AROUND / 2 * np.maximum(w, h)
            edges = np.concatenate([middle - half[:, None], middle + half[:, None]], 1)
            crops.append(procedure.crops(chosen["frame"].to_numpy(), edges, SIZE))
            adenoma.append(polyp.histology_class == "AD")
            patients.append(patient)
    return np.stack(crops), np.array(adenoma), np.array(patients)


def statistics(crops: NDArray[np.uint8]) -> Floats:
    """Colour and spectrum (v, f) of the polyps in crops (v, h, w, 3), also relative to around."""
    log_crops = np.log(crops / 255 + 0.02)
    cut = slice(SIZE // 4, 3 * SIZE // 4)
    inner = log_crops[:, cut, cut]
    red, surrounding_red = (
        inner[..., 0] - inner[..., 1],
        (log_crops[..., 0] - log_crops[..., 1]).mean((1, 2)),
    )
    colour = [inner.mean((1, 2)), inner.std((1, 2)), inner.mean((1, 2)) - log_crops.mean((1, 2))]
    tone = [red.mean((1, 2)) - surrounding_red, red.std((1, 2))]
    green = inner[..., 1] - inner[..., 1].mean((1, 2), keepdims=True)
    window = np.hanning(green.shape[1])
    power = np.abs(np.fft.fft2(green * window[:, None] * window))
    waves = np.fft.fftfreq(green.shape[1], 1 / green.shape[1])
    radius = np.hypot(waves[:, None], waves)
    rings = [
        np.log(power[:, (radius >= low) & (radius < high)].mean(1) + 1e-3)
        for low, high in itertools.pairwise(RINGS)
    ]
    return np.concatenate([*colour, np.stack([*tone, *rings], 1)], axis=1)


def probe_scores(features: Floats, truth: NDArray[np.bool_], groups: NDArray[np.int64]) -> Floats:
    """Cross-validated scores (n,) of polyps, with folds by patient; features are (n, v, f)."""
    n, views, width = features.shape
    scores = np.zeros(n)
    for train_rows, test_rows in GroupKFold(10).split(features, truth, groups):
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000))
        probe.fit(features[train_rows].reshape(-1, width), np.repeat(truth[train_rows], views))
        fold_scores = probe.decision_function(features[test_rows].reshape(-1, width))
        scores[test_rows] = fold_scores.reshape(-1, views).mean(1)
    return scores


@pytest.mark.study
def test_a_linear_probe_is_as_accurate_as_frozen_models_on_real_tracklets() -> None:
    """Its features are statistics of colour and texture."""
    crops, adenoma, patients = polyps()
    features = np.stack([statistics(crop) for crop in crops])
    scores = probe_scores(features, adenoma, patients)
    auroc, accuracy = roc_auc_score(adenoma, scores), ((scores > 0) == adenoma).mean()
    shuffled = np.random.default_rng(0).permutation(adenoma)
    chance = roc_auc_score(shuffled, probe_scores(features, shuffled, patients))
    print(f"{len(adenoma)} polyps: AUROC {auroc:.3f}, accuracy {accuracy:.3f}, ", end="")
    print(f"labels shuffled {chance:.3f}")
    assert 0.65 <= auroc <= 0.90
    assert 0.60 <= accuracy <= 0.85
    assert chance < 0.65


@pytest.mark.study
def test_even_exact_tissue_parameters_do_not_determine_the_histology() -> None:
    """An upper limit for every method."""
    rng = np.random.default_rng(0)
    truth = rng.random(8000) < 0.5
    tissues = [draw_tissue(rng, "AD" if is_adenoma else "HP", 1.0) for is_adenoma in truth]
    tissue_features = np.array(
        [[*t.pattern, t.contrast, t.hue, t.value, t.vessels, t.mucus] for t in tissues]
    )
    scores = probe_scores(tissue_features[:, None], truth, np.arange(8000))
    auroc, accuracy = roc_auc_score(truth, scores), ((scores > 0) == truth).mean()
    print(f"tissue known: AUROC {auroc:.3f}, accuracy {accuracy:.3f}")
    assert 0.85 <= auroc <= 0.93
    assert 0.78 <= accuracy <= 0.86
