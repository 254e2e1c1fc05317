from collections import Counter
from collections.abc import Callable
from itertools import product, starmap
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

from polyplink.associate.clusterers import TemporalAP
from polyplink.associate.grid_search import find_grid
from polyplink.core.errors import PolyplinkError
from polyplink.core.lazy_torch import heal_torchvision
from polyplink.encoders.config import EncoderConfig
from polyplink.learn.fragment_set import FragmentSet
from polyplink_lab.bench import box_cases, cases, training
from polyplink_lab.bench.cases import CASES, run_benches
from polyplink_lab.bench.harness import Work, most_memory
from polyplink_lab.bench.pixel_cases import recording, simulated_crops
from polyplink_lab.bench.training import (
    Stepper,
    profile_step,
    recipe,
    same_mean,
    synthetic_prepared,
)

heal_torchvision()
CPU = torch.device("cpu")
TINY = EncoderConfig(frame_encoder="timm:test_resnet", width=32, layers=1, heads=4, feedforward=64)
SMALL_GRID = {
    "temporal_ap": list(starmap(TemporalAP, product((0.25, 0.75), (0.5, 4.0), range(-15, 5))))
}


def small_sweep(size: int, device: torch.device, folder: Path) -> Work:
    return box_cases.sweep(size, device, folder, grid=SMALL_GRID, every_nth=3)


def small_bootstrap(size: int, device: torch.device, folder: Path) -> Work:
    return box_cases.bootstrap(size, device, folder, tracklets=240)


def small_embed(size: int, device: torch.device, folder: Path) -> Work:
    pytest.importorskip("openvino")
    pytest.importorskip("onnxruntime")
    return training.embed(size, device, folder, TINY, 64)


def small_simulate(size: int, device: torch.device, folder: Path) -> Work:
    return simulated_crops(size, device, folder, side=24)


def small_recording(size: int, device: torch.device, folder: Path) -> Work:
    return recording(size, device, folder, frame=(320, 180))


SMALL_CASES: list[tuple[str, int, Callable[..., Work] | None, Callable[[Any], Any]]] = [
    # Name, a small size, a smaller variant of the case, and a change that makes outputs unequal.
    ("tracklets", 2_000, None, lambda described: described[1:]),
    ("tracks", 4_000, None, lambda labels: labels[::-1]),
    ("links", 24, None, lambda labels: labels[::-1]),
    ("recording", 25, small_recording, lambda crops: crops[::-1]),
    ("bags", 300, None, lambda order: order[:, ::-1]),
    ("first-pass", 1, None, lambda pixels: pixels.flip(0)),
    ("retrieval", 64, None, lambda figures: [0.5, *figures[1:]]),
    ("search", 1_000, None, lambda rows: [row[::-1] for row in rows]),
    ("reid", 80, None, lambda areas: [areas[0], 0.5]),
    ("bootstrap", 16, small_bootstrap, lambda figures: figures + 0.01),
    ("tracking", 1_200, None, lambda figures: figures | {"IDF1": 0.5}),
    ("tracking-general", 1_200, None, lambda figures: figures | {"IDF1": 0.5}),
    ("sweep", 24, small_sweep, lambda labels: [labels[-1], *labels[1:]]),
    ("embed", 8, small_embed, lambda vectors: vectors[np.random.default_rng(0).permutation(8)]),
    ("simulate", 8, small_simulate, lambda drawn: (drawn[0], -1 - drawn[1])),
]


# torch takes seconds to export, and torchmetrics and TrackEval to be imported; the quick tests of
# `evaluate` compare its figures with naive loops, scikit-learn and TrackEval.
SLOW_CASES = ("embed", "first-pass", "sweep", "retrieval", "reid", "tracking")


@pytest.mark.parametrize(
    ("name", "size", "prepare_small", "spoil"),
    [
        pytest.param(
            *s,
            id=s[0],
            marks=pytest.mark.slow if s[0].removesuffix("-general") in SLOW_CASES else (),
        )
        for s in SMALL_CASES
    ],
)
def test_outputs_equal_the_rival_s_and_a_difference_is_detected(
    name: str,
    size: int,
    prepare_small: Callable[..., Work] | None,
    spoil: Callable[[Any], Any],
    tmp_path: Path,
) -> None:
    if name in ("retrieval", "reid"):
        pytest.importorskip("torchmetrics")
    work = (prepare_small or CASES[name].prepare)(size, CPU, tmp_path)
    assert work.rival is not None
    output, rival_output = work.ours(), work.rival()
    assert work.equal(output, rival_output)
    if name == "sweep":
        changed = {key: value + 1e-9 for key, value in output[0].items()}
        assert not work.equal((changed, output[1]), rival_output)
        rival_output[0][0] = 1 - np.arange(3) // 2  # another partition of the smallest procedure
        assert not work.equal(output, rival_output)
    else:
        assert not work.equal(output, spoil(rival_output))


@pytest.mark.slow
def test_cases_without_a_plain_rival_are_measured() -> None:
    (startup,) = run_benches(["startup"], 1)
    (step,) = run_benches(["step"], 8, "cpu")
    assert startup.equal
    assert (startup.rival, startup.ratio) == ("-", None)
    assert step.equal
    assert step.rate is not None
    assert "on cpu" in step.rival
    assert list(step.also.values()) == [pytest.approx(50 * 875 * step.ours_s)]
    (precision,) = run_benches(["precision"], 1, "cpu")
    values = list(precision.also.values())
    assert precision.equal
    assert values[:3] == values[3:]  # on a CPU both are float32
    assert all(0 < value <= 1 for value in values)
    assert not same_mean([0.60, 0.62, 0.61], [0.70, 0.721, 0.711])


def test_unknown_names_and_sizes_are_refused_before_anything_is_measured() -> None:
    refused_calls = [
        (["xyz"], None, "choose one of: " + ", ".join(CASES)),
        (["step", "sweep"], 23, "sweep cannot be measured at size 23; give 24"),
        (["startup"], 3, "start-up of size 3; leave the size out"),
    ]
    for name, case in CASES.items():
        expected = f"{name} cannot be measured at size {case.least - 1}; give {case.least} or more"
        refused_calls.append(([name], case.least - 1, expected))
    for names, size, message in refused_calls:
        with pytest.raises(PolyplinkError, match=message):
            next(run_benches(names, size))


def test_cuda_selects_the_cases_that_use_a_gpu() -> None:
    gpu_cases = [CASES[name] for name in ("step", "precision", "simulate")]
    assert cases.chosen_cases([], "cuda") == gpu_cases
    assert recipe(torch.device("cuda")).optim.bags_per_batch == CASES["step"].size
    assert len(cases.chosen_cases([], "auto")) == len(CASES)
    with pytest.raises(PolyplinkError, match="no device 'tpu' here"):
        next(run_benches(["step"], 8, "tpu"))


def test_importing_polyplink_imports_nothing_heavy() -> None:
    assert cases.imported_modules(cases.IMPORT, cases.HEAVY) == []
    assert cases.imported_modules("import json, csv", ("csv", "wave", "json")) == ["csv", "json"]


def test_synthetic_detections_have_gaps_and_jumps_and_the_density_of_real_colon() -> None:
    table = box_cases.synthetic_detections(6_000)
    assert_frame_equal(table, box_cases.synthetic_detections(6_000))
    assert (len(table), table.select("polyp_id", "frame").is_unique().all()) == (6_000, True)
    steps = table.sort("polyp_id", "frame").with_columns(
        step=pl.col("frame").diff().over("polyp_id"),
        shift=pl.col("x").diff().abs().over("polyp_id"),
    )
    assert steps.filter(pl.col("step") > 1).height > 10
    assert steps.filter((pl.col("step") == 1) & (pl.col("shift") > 110)).height > 10
    twelfth = box_cases.synthetic_detections(box_cases.BOXES // 12)
    assert twelfth["polyp_id"].n_unique() == box_cases.POLYPS // 12
    assert twelfth["procedure_id"].n_unique() == box_cases.PROCEDURES // 12


def test_the_sweep_rival_gets_a_fair_sample_of_the_paper_grid() -> None:
    """Preferences are sampled equally often: 16 of 41 exceed all similarities and cost no time."""
    grid = cast(list[TemporalAP], find_grid("paper", ["temporal_ap"])["temporal_ap"])
    rows = range(0, len(grid), box_cases.EVERY)
    assert (len(grid), len(rows)) == (29_274, 164)
    assert set(Counter(grid[row].preference for row in rows).values()) == {4}
    assert {grid[row].alpha for row in rows} == {setting.alpha for setting in grid}
    assert {grid[row].gamma for row in rows} == {setting.gamma for setting in grid}


def test_the_bags_of_28000_fragments_take_less_than_100_mb(tmp_path: Path) -> None:
    assert most_memory(CASES["bags"].prepare(28_000, CPU, tmp_path).ours) < 100.0


def test_a_step_trains_and_detects_a_wrong_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = recipe(CPU)
    stepper = Stepper(config, synthetic_prepared(tmp_path, config.prepare), CPU, 3)
    batch = stepper.batches[0]
    clips = stepper.drawn.clips[batch.fragments]
    assert clips.shape == (15, 8)
    crops = stepper.data.pixels(clips[:1]).float()  # 8 similar crops of one polyp
    other_crops = stepper.data.pixels(clips[-1:]).float()
    assert (crops[0] - crops[1]).abs().mean() < (crops[0] - other_crops[0]).abs().mean()
    assert torch.equal(stepper.constant(batch).pixels(clips), stepper.data.pixels(clips))
    parameter = next(iter(stepper.model.encoder.parameters()))
    before = parameter.detach().clone()
    assert stepper.loss_error() < 1e-4
    stepper.step()
    assert not torch.equal(before, parameter)
    pixels = FragmentSet.pixels

    def rolled_pixels(data: FragmentSet, clips: np.ndarray) -> torch.Tensor:
        loaded = pixels(data, clips)
        return loaded if clips.ndim == 1 else loaded.roll(8, 0)

    monkeypatch.setattr(FragmentSet, "pixels", rolled_pixels)
    assert stepper.loss_error() > 1e-4


def test_a_profile_names_operations() -> None:
    assert "aten::" in profile_step(2, "cpu", steps=1)
