"""Frames and crops rendered on demand, the contact sheet and the film."""

import dataclasses
from pathlib import Path

import av
import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.testing import check_crops
from polyplink_lab.simulate import preview
from polyplink_lab.simulate.crop_source import SimulatedCrops
from polyplink_lab.simulate.plan import boxes_of
from polyplink_lab.simulate.presets import smoke
from polyplink_lab.simulate.preview import (
    choose_procedures,
    film_frames,
    film_pictures,
    film_size,
    workflow,
    write_film,
    write_preview,
)
from polyplink_lab.simulate.procedure_specs import procedure_specs
from polyplink_lab.simulate.rendering import SimulatedProcedure, one_thread, through_jpeg, to_jpeg
from tests.simulate.conftest import SmokeSet


@pytest.fixture(scope="module")
def procedure(smoke_set: SmokeSet) -> SimulatedProcedure:
    return SimulatedProcedure.open(smoke_set.out, "001-009")


def test_simulated_crops_fulfil_the_plugin_contract(smoke_set: SmokeSet) -> None:
    check_crops(SimulatedCrops, smoke_set.out, "001-001")


def test_one_thread_restores_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt
    assert torch.get_num_threads() == before


def test_crops_are_compressed_as_jpeg(procedure: SimulatedProcedure) -> None:
    frames, edges = np.array([40, 41]), np.array([[0, 0, 32, 32], [4, 8, 44, 48]])
    uncompressed = procedure.windows(frames, edges, (24, 24))
    crops = procedure.crops(frames, edges, 24)
    assert np.array_equal(crops, procedure.crops(frames, edges, 24, threads=2))
    for crop, pixels in zip(crops, uncompressed, strict=True):
        assert np.array_equal(crop, through_jpeg(pixels))
        assert not np.array_equal(crop, pixels)


def test_rendered_frames_equal_those_on_disk(
    smoke_set: SmokeSet, procedure: SimulatedProcedure
) -> None:
    path = smoke_set.out / "001-009_frames" / "001-009_77.jpg"
    assert path.read_bytes() == to_jpeg(procedure.frames([77])[0])


def test_unknown_procedures_and_other_folders_are_refused(
    smoke_set: SmokeSet, tmp_path: Path
) -> None:
    with pytest.raises(PolyplinkError, match=r"no procedure '009-001' in the simulation"):
        SimulatedProcedure.open(smoke_set.out, "009-001")
    with pytest.raises(PolyplinkError, match=r"key\.json is missing"):
        SimulatedProcedure.open(tmp_path, "001-001")


@pytest.fixture(scope="module")
def boxes(procedure: SimulatedProcedure) -> pl.DataFrame:
    return boxes_of(procedure.plan)


def test_the_preview_shows_one_procedure_per_brand() -> None:
    specs = procedure_specs(smoke(), 0)
    brands = ["Fujifilm" if k == 1 else "Olympus" for k in range(len(specs))]
    mixed = [dataclasses.replace(s, brand=b) for s, b in zip(specs, brands, strict=True)]
    assert sorted(spec.brand for spec in choose_procedures(mixed)) == ["Fujifilm", "Olympus"]
    assert not specs[0].pairs
    assert any(spec.pairs for spec in specs)
    assert all(spec.pairs for spec in choose_procedures(specs))


def test_frames_of_the_workflow_show_their_moments(
    procedure: SimulatedProcedure, boxes: pl.DataFrame
) -> None:
    plan = procedure.plan
    moments = workflow(plan, boxes)
    conditions, boxed = plan.conditions, set(boxes["frame"])
    assert moments["insertion"] < plan.timeline.turn
    assert moments["insertion"] not in boxed
    assert moments["inspection"] in boxed
    assert not conditions.blink[moments["inspection"]]
    assert conditions.splash[moments["inspection"]] < 0.05
    assert conditions.instrument[moments["instrument"], 0] > 0
    assert conditions.blink[moments["nothing seen"]]


def test_a_film_runs_forward_and_marks_polyps(
    procedure: SimulatedProcedure, boxes: pl.DataFrame
) -> None:
    frames = film_frames(procedure.plan)
    assert (np.diff(frames) > 0).all()
    assert 0 <= frames[0] < frames[-1] < procedure.plan.spec.n_frames
    boxed = boxes.filter(pl.col("frame").is_in(frames.tolist()))["frame"].to_numpy()[:2]
    without_marks = procedure.frames(boxed, film_size(procedure.plan.spec))
    for picture, before in zip(film_pictures(procedure, boxes, boxed), without_marks, strict=True):
        assert picture.shape == before.shape
        assert 0.001 < (picture != before).mean() < 0.3


@pytest.mark.slow
def test_the_preview_writes_a_sheet_and_a_film(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "film_frames", lambda plan: np.arange(10, 16))
    progress_calls: list[tuple[int, int]] = []
    files = write_preview(tmp_path, smoke(), 0, progress=lambda *step: progress_calls.append(step))
    with Image.open(files["sheet"]) as image:
        assert image.width > 300
        assert len(image.getcolors(maxcolors=2**24) or ()) > 1000
    with av.open(str(files["film"])) as container:
        assert container.streams.video[0].width == 240  # enlarged from 64 pixels
        assert sum(1 for _ in container.decode(video=0)) == 6
    assert progress_calls == [(done, 6) for done in range(7)]


def grey(value: int) -> np.ndarray:
    return np.full((32, 48, 3), value, np.uint8)


def test_a_film_has_its_frames_in_order(tmp_path: Path) -> None:
    values = list(range(20, 220, 10))
    write_film(tmp_path / "a.mp4", map(grey, values), 29.97)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert float(container.streams.video[0].average_rate or 0) == pytest.approx(29.97)
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert [frame.shape for frame in decoded] == [(32, 48, 3)] * len(values)
    assert [frame.mean() for frame in decoded] == pytest.approx(values, abs=4)


def test_a_film_without_frames_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no frames"):
        write_film(tmp_path / "a.mp4", [], 25.0)
    assert not list(tmp_path.iterdir())
