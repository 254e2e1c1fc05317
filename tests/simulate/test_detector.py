"""The simulated detector has the rates of its preset."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet
from polyplink.testing import check_detector
from polyplink_lab.simulate.detector import (
    DETECTORS,
    detect_simulated,
    detector_boxes,
    detector_preset,
)
from polyplink_lab.simulate.lookalikes import fold_height, wall_behind
from polyplink_lab.simulate.rendering import planned
from tests.simulate.conftest import Made


def annotated(procedures: int = 12, frames: int = 900) -> DataSet:
    """Procedures in which one polyp stays in view, at a size of its own."""
    names = [f"p{k:02d}" for k in range(procedures)]
    frame = np.tile(np.arange(frames), procedures)
    which = np.repeat(np.arange(procedures), frames)
    side = 40.0 + 20 * which
    return DataSet.of(
        pl.DataFrame(
            {
                "procedure_id": [names[k] for k in which],
                "polyp_id": [f"{names[k]}_1" for k in which],
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
def test_rates_are_those_of_the_preset(name: str) -> None:
    data, preset = annotated(), DETECTORS[name]
    found = detect_simulated(data, preset, seed=0)
    true = found.filter(pl.col("truth").is_not_null())
    assert true.height / data.detections.height == pytest.approx(preset.recall, abs=0.04)
    assert found["polyp_id"].is_null().all()
    assert found["score"].is_between(0, 1).all()
    x, y, w, h = found.select("x", "y", "w", "h").to_numpy().T
    assert min(x.min(), y.min()) >= 0
    assert (x + w).max() <= 800
    assert (y + h).max() <= 600
    # Misses come in runs: a hit follows a hit far more often than if frames were independent.
    frames = true.sort("procedure_id", "frame")["frame"].to_numpy()
    assert (np.diff(frames) == 1).mean() > preset.recall + (1 - preset.recall) / 2
    assert found.equals(detect_simulated(data, preset, seed=0))
    assert not found.equals(detect_simulated(data, preset, seed=1))


def test_false_alarms_are_as_many_and_as_short_as_published() -> None:
    data = annotated(procedures=40, frames=5)
    found = detect_simulated(data, DETECTORS["gi-genius"], seed=0)
    alarms = found.filter(pl.col("truth").is_null()).group_by("procedure_id", "alarm").len()
    assert alarms["alarm"].null_count() == 0
    assert alarms.height / 40 == pytest.approx(101, rel=0.35)


def test_false_alarms_come_without_polyps_too_but_only_where_they_can_be_shown() -> None:
    data = annotated(procedures=2)
    seen = data.detections.filter(pl.col("procedure_id") == "p00")
    shown = seen.with_columns(image=pl.format("{}.jpg", "frame"))
    for boxes in (seen, shown):
        found = detect_simulated(
            DataSet.of(boxes, data.procedures, data.polyps), DETECTORS["shifted"], seed=0
        ).filter(pl.col("truth").is_null())
        assert (found["image"].null_count() == 0) == (boxes is shown)
        assert set(found["procedure_id"]) == ({"p00"} if boxes is shown else {"p00", "p01"})


def test_it_keeps_what_a_plugin_of_its_kind_promises() -> None:
    check_detector(detector_boxes, "good")


def test_an_unknown_detector_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="did you mean gi-genius"):
        detector_preset("gi-genus")


def test_false_alarms_of_simulated_procedures_stay_on_folds_of_the_wall(made: Made) -> None:
    boxes = made.data.detections.with_columns(image=pl.lit(None, pl.String))
    data = replace(made.data, detections=boxes)
    preset = replace(DETECTORS["shifted"], median_alarm=8.0)
    found = detect_simulated(data, preset, seed=0, folder=made.out)
    drifting = detect_simulated(data, preset, seed=0)
    hits = pl.col("truth").is_not_null()
    assert found.filter(hits).equals(drifting.filter(hits))
    each = [
        boxes.drop_nulls("alarm").n_unique(["procedure_id", "alarm"]) for boxes in (found, drifting)
    ]
    assert each[0] == each[1]
    plan, _ = planned(made.out, "001-009")
    size = np.array([plan.spec.width, plan.spec.height])

    def on_wall(boxes: pl.DataFrame) -> tuple[torch.Tensor, torch.Tensor]:
        middle = boxes.select(x=pl.col("x") + pl.col("w") / 2, y=pl.col("y") + pl.col("h") / 2)
        return wall_behind(plan, boxes["frame"].to_numpy(), (middle.to_numpy() / size)[:, None])

    folds, places = [], []
    for boxes in (found, drifting):
        own = boxes.filter(pl.col("procedure_id") == "001-009", pl.col("alarm").is_not_null())
        own = own.filter(pl.len().over("alarm") >= 4).sort("alarm", "frame")
        place, depth = on_wall(own.group_by("alarm", maintain_order=True).first())
        folds.append(float(fold_height(plan, place)[depth < 3].mean()))
        # Where the last box of an alarm is on the wall, next to its first.
        later, _ = on_wall(own.group_by("alarm", maintain_order=True).last())
        places.append(float((later - place).norm(dim=0).median()))
    assert folds[0] > 2 * folds[1]
    assert places[0] < places[1] / 2
