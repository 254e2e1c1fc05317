"""The simulated detector: rates of its presets, and its false alarms."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from polyplink.data.tables import DataSet
from polyplink.testing import check_simulated_detector
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.detector import DETECTORS, detect_simulated, detector_boxes
from polyplink_lab.simulate.lookalikes import fold_height, wall_behind
from polyplink_lab.simulate.presets import WRITINGS, smoke
from polyplink_lab.simulate.rendering import read_plan


def annotated_procedures(procedures: int = 12, frames: int = 450) -> DataSet:
    """Procedures with one polyp that stays in view, of a different size in each."""
    names = [f"p{k:02d}" for k in range(procedures)]
    frame = np.tile(np.arange(frames), procedures)
    procedure_index = np.repeat(np.arange(procedures), frames)
    side = 40.0 + 20 * procedure_index
    return DataSet.of(
        pl.DataFrame(
            {
                "procedure_id": [names[k] for k in procedure_index],
                "polyp_id": [f"{names[k]}_1" for k in procedure_index],
                "frame": frame,
                "x": 200 + 50 * np.sin(frame / 40),
                "y": np.full(len(frame), 150.0),
                "w": side,
                "h": side,
            }
        ),
        pl.DataFrame({"procedure_id": names, "patient": names}).with_columns(
            dataset=pl.lit("simulated"),
            n_frames=pl.lit(frames * 4),
            fps=pl.lit(25.0),
            width=pl.lit(800),
            height=pl.lit(600),
            source=pl.lit("."),
        ),
        pl.DataFrame({"polyp_id": [f"{name}_1" for name in names], "procedure_id": names}),
    )


@pytest.mark.parametrize("name", DETECTORS)
def test_recall_equals_that_of_the_preset_and_misses_come_in_runs(name: str) -> None:
    data, preset = annotated_procedures(), DETECTORS[name]
    boxes = detect_simulated(data, preset, seed=0)
    true = boxes.filter(pl.col("truth").is_not_null())
    assert true.height / data.detections.height == pytest.approx(preset.recall, abs=0.04)
    assert boxes["polyp_id"].is_null().all()
    assert boxes["score"].is_between(0, 1).all()
    x, y, w, h = boxes.select("x", "y", "w", "h").to_numpy().T
    assert min(x.min(), y.min()) >= 0
    assert (x + w).max() <= 800
    assert (y + h).max() <= 600
    # A hit follows a hit much more often than if frames were independent.
    frames = true.sort("procedure_id", "frame")["frame"].to_numpy()
    assert (np.diff(frames) == 1).mean() > preset.recall + (1 - preset.recall) / 2
    if name == "good":
        assert boxes.equals(detect_simulated(data, preset, seed=0))
        assert not boxes.equals(detect_simulated(data, preset, seed=1))


def test_small_boxes_and_new_views_are_missed_more_often() -> None:
    hits = []
    data = annotated_procedures(frames=60)
    for seed in range(5):
        boxes = detect_simulated(data, DETECTORS["gi-genius"], seed)
        hits.append(boxes.drop_nulls("truth").select("procedure_id", "frame"))
    procedure, frame = pl.concat(hits)
    small = procedure.is_in([f"p{k:02d}" for k in range(6)])  # half of the boxes
    assert small.to_numpy().mean() < 0.4
    new = frame < 10  # a sixth of the boxes
    assert new.to_numpy().mean() < 0.8 / 6


def test_false_alarms_are_as_frequent_as_published() -> None:
    data = annotated_procedures(procedures=40, frames=5)
    boxes = detect_simulated(data, DETECTORS["gi-genius"], seed=0)
    alarms = boxes.filter(pl.col("truth").is_null()).group_by("procedure_id", "alarm").len()
    assert alarms["alarm"].null_count() == 0
    assert alarms.height / 40 == pytest.approx(101, rel=0.35)


def test_false_alarms_need_no_polyps_but_images_if_boxes_have_images() -> None:
    data = annotated_procedures(procedures=2)
    one_procedure = data.detections.filter(pl.col("procedure_id") == "p00")
    with_images = one_procedure.with_columns(image=pl.format("{}.jpg", "frame"))
    for boxes in (one_procedure, with_images):
        alarms = detect_simulated(
            DataSet.of(boxes, data.procedures, data.polyps), DETECTORS["shifted"], seed=0
        ).filter(pl.col("truth").is_null())
        assert (alarms["image"].null_count() == 0) == (boxes is with_images)
        assert set(alarms["procedure_id"]) == ({"p00"} if boxes is with_images else {"p00", "p01"})


def test_the_simulated_detector_fulfils_the_plugin_contract() -> None:
    check_simulated_detector(detector_boxes, "good")


@pytest.mark.slow
def test_false_alarms_of_simulated_procedures_stay_on_folds_of_the_wall(tmp_path: Path) -> None:
    data = simulate(tmp_path, WRITINGS["tables"](smoke()), 0, workers=1)
    preset = replace(DETECTORS["shifted"], median_alarm=8.0)
    on_folds = detect_simulated(data, preset, seed=0, folder=tmp_path)
    drifting = detect_simulated(data, preset, seed=0)
    hits = pl.col("truth").is_not_null()
    assert on_folds.filter(hits).equals(drifting.filter(hits))
    n_alarms = [
        boxes.drop_nulls("alarm").n_unique(["procedure_id", "alarm"])
        for boxes in (on_folds, drifting)
    ]
    assert n_alarms[0] == n_alarms[1]
    plan, _ = read_plan(tmp_path, "001-009")
    size = np.array([plan.spec.width, plan.spec.height])

    def on_wall(boxes: pl.DataFrame) -> tuple[torch.Tensor, torch.Tensor]:
        middle = boxes.select(x=pl.col("x") + pl.col("w") / 2, y=pl.col("y") + pl.col("h") / 2)
        return wall_behind(plan, boxes["frame"].to_numpy(), (middle.to_numpy() / size)[:, None])

    folds, shifts = [], []
    for boxes in (on_folds, drifting):
        alarms = boxes.filter(pl.col("procedure_id") == "001-009", pl.col("alarm").is_not_null())
        alarms = alarms.filter(pl.len().over("alarm") >= 4).sort("alarm", "frame")
        place, depth = on_wall(alarms.group_by("alarm", maintain_order=True).first())
        folds.append(float(fold_height(plan, place)[depth < 3].mean()))
        # How far apart the first and the last box of an alarm are on the wall.
        last_place, _ = on_wall(alarms.group_by("alarm", maintain_order=True).last())
        shifts.append(float((last_place - place).norm(dim=0).median()))
    assert folds[0] > 2 * folds[1]
    assert shifts[0] < shifts[1] / 2
