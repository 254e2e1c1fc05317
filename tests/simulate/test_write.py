import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import simplejpeg

from polyplink.core.artefacts import read_json
from polyplink.simulate import smoke
from polyplink.simulate.boxes import boxes_of
from polyplink.simulate.cast import procedure_specs
from polyplink.simulate.crops import SimulatedProcedure
from polyplink.simulate.plan import plan_procedure
from polyplink.simulate.specs import Preset
from polyplink.simulate.write import Job, write_procedure

QUICK = dataclasses.replace(
    smoke(),
    polyps=(("001-001", 1),),
    width=16,
    height=16,
    long_views=(1, 1),
    short_views=(0, 0),
    long_frames=(5, 5),
)


def job(out: Path, preset: Preset = QUICK) -> Job:
    return Job(out, preset, 0, procedure_specs(preset, 0)[0], "cpu")


def test_frames_are_written_then_boxes_and_truth(tmp_path: Path) -> None:
    own = job(tmp_path)
    before = own.done
    assert write_procedure(own) == "001-001"
    assert (before, own.done) == (False, True)
    names = {path.name for path in own.frames.iterdir()}
    assert names == {f"001-001_{frame}.jpg" for frame in range(own.spec.n_frames)}
    image = simplejpeg.decode_jpeg((own.frames / "001-001_0.jpg").read_bytes())
    assert image.shape == (16, 16, 3)
    truth = read_json(own.truth)
    assert truth["procedure"]["n_frames"] == own.spec.n_frames
    assert len(truth["traits"]) == 1
    boxes = pl.read_parquet(tmp_path / "simulation" / "001-001.parquet")
    assert boxes.equals(boxes_of(plan_procedure(QUICK, 0, own.spec)))
    assert boxes.height == 5


def test_frames_with_a_box_alone_and_none_at_all(tmp_path: Path) -> None:
    boxed = job(tmp_path / "boxed", dataclasses.replace(QUICK, frames="boxed"))
    write_procedure(boxed)
    boxes = pl.read_parquet(tmp_path / "boxed" / "simulation" / "001-001.parquet")
    names = {path.name for path in boxed.frames.iterdir()}
    assert names == {f"001-001_{frame}.jpg" for frame in boxes["frame"]}
    none = job(tmp_path / "none", dataclasses.replace(QUICK, frames="none"))
    write_procedure(none)
    assert none.done
    assert not none.frames.exists()


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(self: SimulatedProcedure, frames: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    monkeypatch.setattr(SimulatedProcedure, "frames", cut)
    with pytest.raises(KeyboardInterrupt):
        write_procedure(job(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_made_again(tmp_path: Path) -> None:
    frames = job(tmp_path).frames
    frames.mkdir()  # frames without their truth
    (frames / "old.jpg").touch()
    (tmp_path / ".001-001_frames.123.part").mkdir()
    write_procedure(job(tmp_path))
    assert not (frames / "old.jpg").exists()
    assert not list(tmp_path.glob(".*"))
    assert len(list(frames.iterdir())) == job(tmp_path).spec.n_frames
