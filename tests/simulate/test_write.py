import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import torch

from polyplink.artefacts import read_json
from polyplink.simulate import Preset, smoke
from polyplink.simulate import write as room
from polyplink.simulate.first_plan import Plan
from polyplink.simulate.procedure import render_procedure
from polyplink.simulate.write import Job, generator, one_thread, write_procedure

QUICK = dataclasses.replace(
    smoke(), width=16, height=16, long_views=(1, 1), short_views=(0, 0), long_frames=(5, 5)
)


def job(out: Path) -> Job:
    return Job(out, QUICK, 0, "001-001", 1, "cpu")


def test_generators_depend_on_seed_and_name_alone() -> None:
    draws = {(s, p): generator(s, p).random() for s in (0, 1) for p in ("001-001", "001-010")}
    assert len(set(draws.values())) == 4
    assert generator(0, "001-010").random() == draws[0, "001-010"]


def test_one_thread_is_given_back() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt
    assert torch.get_num_threads() == before


def test_frames_are_written_then_the_truth(tmp_path: Path) -> None:
    assert not job(tmp_path).done
    assert write_procedure(job(tmp_path)) == "001-001"
    assert job(tmp_path).done
    names = sorted(path.name for path in job(tmp_path).frames.iterdir())
    assert names == [f"001-001_{frame}.jpg" for frame in range(5)]
    image = simplejpeg.decode_jpeg((job(tmp_path).frames / names[0]).read_bytes())
    assert image.shape == (16, 16, 3)
    truth = read_json(job(tmp_path).truth)
    assert truth["n_frames"] == 5
    assert [box[0] for box in truth["boxes"]] == [0, 1, 2, 3, 4]


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(plan: Plan, preset: Preset, device: torch.device) -> Iterator[object]:
        yield next(render_procedure(plan, preset, device))
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "render_procedure", cut)
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
    assert np.count_nonzero([path.suffix == ".jpg" for path in frames.iterdir()]) == 5
