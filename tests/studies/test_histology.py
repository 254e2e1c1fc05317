"""Is telling adenomas apart possible and not trivial? Run by `make study`, not by CI: minutes.

The anchor: on real tracklets frozen foundation models tell adenomas from the rest with an accuracy
of 0.62 to 0.76, the best trained encoder with 0.82 (NTSSL, arXiv 2605.12320, table 1).
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

from polyplink_lab.simulate.colon.tissue import draw_tissue
from polyplink_lab.simulate.plan import boxes_of, plan_procedure
from polyplink_lab.simulate.presets import smoke
from polyplink_lab.simulate.procedure_specs import procedure_specs
from polyplink_lab.simulate.rendering import SimulatedProcedure

Floats = NDArray[np.float64]

PATIENTS = 100
VIEWS, SIZE = 6, 128  # crops of a polyp, pixels
AROUND = 2.0  # side of a crop, times its box's longer side
RINGS = (1, 2, 3, 4.5, 6.5, 9, 13, 18, 25, 32)  # waves per half a crop


def polyps() -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int64]]:
    """Crops (n, v, h, w, 3) of polyps of many patients, whether adenoma (n,), and patient (n,)."""
    names = tuple((f"{1 + k // 50:03d}-{1 + k % 50:03d}", 2) for k in range(PATIENTS))
    preset = replace(smoke(), name="histology", polyps=names, width=320, height=256, pair_share=0.0)
    crops, adenoma, patients = [], [], []
    for patient, spec in enumerate(procedure_specs(preset, 0)):
        plan = plan_procedure(preset, 0, spec)
        procedure, boxes = SimulatedProcedure.of(plan, 0), boxes_of(plan)
        for index, polyp in enumerate(spec.polyps):
            own = boxes.filter(boxes["polyp"] == index)
            if polyp.histology_class not in {"AD", "HP", "SSL", "TSA"} or own.height < VIEWS:
                continue
            some = own.gather(np.linspace(0, own.height - 1, VIEWS).round().astype(int))
            x, y, w, h = (some[name].to_numpy() for name in "xywh")
            middle, half = np.stack([x + w / 2, y + h / 2], 1), AROUND / 2 * np.maximum(w, h)
            edges = np.concatenate([middle - half[:, None], middle + half[:, None]], 1)
            crops.append(procedure.crops(some["frame"].to_numpy(), edges, SIZE))
            adenoma.append(polyp.histology_class == "AD")
            patients.append(patient)
    return np.stack(crops), np.array(adenoma), np.array(patients)


def statistics(crops: NDArray[np.uint8]) -> Floats:
    """Colour and spectrum (v, f) of crops (v, h, w, 3): of the polyp, and beside what is around."""
    whole = np.log(crops / 255 + 0.02)
    cut = slice(SIZE // 4, 3 * SIZE // 4)
    inner = whole[:, cut, cut]
    red, around = inner[..., 0] - inner[..., 1], (whole[..., 0] - whole[..., 1]).mean((1, 2))
    colour = [inner.mean((1, 2)), inner.std((1, 2)), inner.mean((1, 2)) - whole.mean((1, 2))]
    tone = [red.mean((1, 2)) - around, red.std((1, 2))]
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


def probed(features: Floats, truth: NDArray[np.bool_], groups: NDArray[np.int64]) -> Floats:
    """Scores (n,) of polyps whose patients the probe has not seen; features are (n, v, f)."""
    n, views, width = features.shape
    scores = np.zeros(n)
    for seen, unseen in GroupKFold(10).split(features, truth, groups):
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000))
        probe.fit(features[seen].reshape(-1, width), np.repeat(truth[seen], views))
        found = probe.decision_function(features[unseen].reshape(-1, width))
        scores[unseen] = found.reshape(-1, views).mean(1)
    return scores


@pytest.mark.study
def test_a_simple_probe_tells_adenomas_apart_and_often_errs() -> None:
    """Colour and texture statistics do what frozen models do on real tracklets."""
    crops, adenoma, patients = polyps()
    features = np.stack([statistics(one) for one in crops])
    scores = probed(features, adenoma, patients)
    auroc, accuracy = roc_auc_score(adenoma, scores), ((scores > 0) == adenoma).mean()
    shuffled = np.random.default_rng(0).permutation(adenoma)
    chance = roc_auc_score(shuffled, probed(features, shuffled, patients))
    print(f"{len(adenoma)} polyps: AUROC {auroc:.3f}, accuracy {accuracy:.3f}, ", end="")
    print(f"labels shuffled {chance:.3f}")
    assert 0.65 <= auroc <= 0.90
    assert 0.60 <= accuracy <= 0.85
    assert chance < 0.65


@pytest.mark.study
def test_who_knows_a_polyps_tissue_exactly_still_errs() -> None:
    """No method can do better than this, however good its eyes."""
    rng = np.random.default_rng(0)
    truth = rng.random(8000) < 0.5
    tissues = [draw_tissue(rng, "AD" if one else "HP", 1.0) for one in truth]
    known = np.array(
        [[*t.pattern, t.contrast, t.hue, t.value, t.vessels, t.mucus] for t in tissues]
    )
    scores = probed(known[:, None], truth, np.arange(8000))
    auroc, accuracy = roc_auc_score(truth, scores), ((scores > 0) == truth).mean()
    print(f"tissue known: AUROC {auroc:.3f}, accuracy {accuracy:.3f}")
    assert 0.85 <= auroc <= 0.93
    assert 0.78 <= accuracy <= 0.86
