"""Detectors that are functions in a file, named on the command line as FILE.py:NAME."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyplink.cli.run import run
from polyplink.core.artefacts import file_key
from polyplink.data.origin import read_origin
from polyplink.data.tables import read_data
from polyplink.detect import first_pass
from polyplink.detect.folder import open_detector
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.conftest import SampleRun
from tests.samples import copy_frames

CODE = """
import threading
from pathlib import Path
import numpy as np

CALLS = []
FULL = Path(__file__).with_name("full")

def find_polyps(image):
    \"\"\"The polyp of the sample's frames, which have 48 x 40 pixels.\"\"\"
    height, width, channels = image.shape
    assert channels == 3 and image.dtype == np.uint8
    CALLS.append(threading.get_ident())
    if len(CALLS) == 25 and FULL.exists():
        raise ValueError("full")
    return np.array([[LEFT, 8.0, 16.0, 12.0, 0.9]]) * [*2 * [width / 48, height / 40], 1]
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A file with a detector; `code` writes it."""
    path = tmp_path / "my_detectors.py"
    path.write_text(code(10))
    yield path
    sys.modules.pop(path.stem, None)
    sys.path[:] = [folder for folder in sys.path if folder != str(tmp_path)]


def code(left: float) -> str:
    return CODE.replace("LEFT", str(left))


def calls() -> list[int]:
    threads: list[int] = sys.modules["my_detectors"].CALLS
    return threads


def test_run_calls_a_function_of_a_file_in_one_thread(
    sample_run: SampleRun, tmp_path: Path, file: Path
) -> None:
    frames = copy_frames(sample_run.frames, tmp_path / "film", [*range(32), *range(42, 50)])
    named = f"{file}:find_polyps"
    command = ("run", frames, "--detector", named, "--weights", sample_run.weights)
    counted = printed_json(*command, "--out", tmp_path / "out", "--device", "cpu")
    assert counted["polyps"] == 1
    assert (len(calls()), len(set(calls()))) == (40, 1)
    boxes = read_data(tmp_path / "out" / "data").detections
    assert boxes["frame"].to_list() == list(range(40))
    assert boxes.select("x", "y", "w", "h").unique().rows() == [(10, 8, 16, 12)]
    origin = read_origin(tmp_path / "out" / "data")
    assert origin is not None
    assert (origin.name, origin.sha256) == ("find_polyps", file_key(file))
    # A second run, in Python, uses the boxes of the first.
    options = {"weights": sample_run.weights, "out": tmp_path / "out", "device": "cpu"}
    again = run(frames, detector=named, **options)  # type: ignore[arg-type]
    assert again.value.polyps == 1
    assert len(calls()) == 40


def test_an_edited_file_is_another_detector(
    sample_run: SampleRun, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_pass, "PIECE", 10)
    frames, out = tmp_path / "film", tmp_path / "out"
    copy_frames(sample_run.frames, frames, range(30))
    name = f"{file}:find_polyps"
    command = ("detect", frames, out, "--detector", name)
    (tmp_path / "full").touch()
    fault = polyplink(*command)
    assert fault.exit_code == 3
    at_fault = f"ValueError: full; this is a fault of detector 'find_polyps' of {file} (line 15)"
    assert f"{at_fault}: correct it, the trace is in" in fault.stderr
    (tmp_path / "full").unlink()
    stopped = open_detector(name).origin
    # The first two pieces are those of a detector that no longer exists.
    file.write_text(code(20))
    succeed(*command)
    assert read_data(out).detections["x"].to_list() == [20] * 30
    edited = read_origin(out)
    assert edited is not None
    assert edited.name == stopped.name
    assert edited.key != stopped.key
    assert edited == open_detector(name).origin
    # Of the same size, at once: neither the boxes nor Python's compiled file are of the file.
    file.write_text(code(30))
    succeed(*command)
    assert read_data(out).detections["x"].to_list() == [30] * 30
    succeed(*command)  # finished
    assert len(calls()) == 30


def test_live_calls_a_function_of_a_file_on_frames_of_the_procedure_alone(
    sample_run: SampleRun, tmp_path: Path, file: Path
) -> None:
    frames = copy_frames(sample_run.frames, tmp_path / "film", range(30))
    named = ("--detector", f"{file}:find_polyps", "--weights", sample_run.weights)
    options = ("--no-page", "--speed", "0", "--device", "cpu", "--min-seconds", "0.3")
    result = succeed("live", frames, *named, *options, "--out", tmp_path / "out")
    finished = json.loads(result.stdout.splitlines()[-1])
    assert finished["final"]["tracklets"] == 1
    assert (len(calls()), len(set(calls()))) == (30, 1)
    origin = read_origin(tmp_path / "out" / "data")
    assert origin == open_detector(f"{file}:find_polyps").origin


def test_a_function_of_a_file_is_measured(sample_run: SampleRun, file: Path) -> None:
    command = ("evaluate-detector", f"{file}:find_polyps", sample_run.data, "--frames", "1")
    figures = printed_json(*command)
    assert len(calls()) == figures["frames"] == 5
    assert 0 < figures["ap50"]["value"] <= 1
    assert figures["score"] == 0.4  # of the tracks


WRONG = """
import numpy as np

class Model:
    def __init__(self, image=None): ...

class Tensor:
    def __array__(self, *_, **__):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad")

def nothing(image): ...
def corners(image): return [[1, 2, 30, 40]]
def logits(image): return [[1, 2, 30, 40, 0.75], [3, 4, 30, 40, 7.5]]
def relative(image): return [[0.25, 0.5, 0.5, 0.25, 0.9]]
def edges(image): return 10 * [[20, 30, image.shape[1] - 1, image.shape[0] - 1, 0.9]]
def infinite(image): return [[1, float("nan"), 30, 40, 0.5]]
def ragged(image): return [[1, 2, 30, 40, 0.9], [1]]
def tensor(image): return Tensor()
def broken(image): return image.boxes
def no_argument(): return []
def ends_program(image): raise SystemExit
def ends_iteration(image): raise StopIteration
def loses_server(image): raise BrokenPipeError("of the server")
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":find", "my_detectors.py has no detector 'find'; give "),
        ("", "my_detectors.py:NAME of a detector in it"),
        (":np", "my_detectors.py:np has no __call__; the how-to on adding parts"),
        (":Model", "my_detectors.py:Model is a class; name a function of an image"),
        (":nothing", "the detector returned an array of shape () that holds no valid boxes; "),
        (":corners", "an array of shape (1, 4) that holds no valid boxes; return (k, 5): x, y"),
        (":logits", "the detector returned the box 3, 4, 30, 40 with the score 7.5; return (k, 5)"),
        (":infinite", "the detector returned the box 1, nan, 30, 40 with the score 0.5; return"),
        (":relative", "0.25, 0.5, 0.5, 0.25, which lies within one pixel; multiply x and w by"),
        (":edges", "would fit with their third and fourth number as the right and bottom edge;"),
        (":ragged", "the detector returned list, which is not an array (setting an array"),
        (":tensor", "Tensor, which is not an array (Can't call numpy() on Tensor that requires"),
    ],
)
def test_what_is_not_a_detector_in_a_file_is_refused(
    sample_run: SampleRun, tmp_path: Path, file: Path, name: str, message: str
) -> None:
    file.write_text(WRONG)
    frames = copy_frames(sample_run.frames, tmp_path / "film", [0])
    command = ("detect", frames, tmp_path / "data", "--detector", f"{file}{name}")
    assert_refused(polyplink(*command), message)


@pytest.mark.parametrize(
    "name", ["broken", "no_argument", "ends_program", "ends_iteration", "loses_server"]
)
def test_a_fault_in_a_function_is_for_its_user_to_correct(
    sample_run: SampleRun, tmp_path: Path, file: Path, name: str
) -> None:
    file.write_text(WRONG)
    frames = copy_frames(sample_run.frames, tmp_path / "film", range(3))
    named = ("--detector", f"{file}:{name}")
    faults = [polyplink("detect", frames, tmp_path / "data", *named)]
    if name not in ("broken", "no_argument"):  # errors that might end the source of a live count
        live = ("live", frames, *named, "--weights", sample_run.weights, "--no-page")
        faults.append(polyplink(*live, "--out", tmp_path / "out"))
    for fault in faults:
        assert fault.exit_code == 3
        assert f"this is a fault of detector '{name}'" in fault.stderr


def test_a_file_that_ends_the_program_on_import_is_refused(tmp_path: Path, file: Path) -> None:
    file.write_text("import argparse\nargparse.ArgumentParser().parse_args(['detect'])\n")
    (tmp_path / "film").mkdir()
    result = polyplink("detect", tmp_path / "film", tmp_path / "data", "--detector", f"{file}:f")
    assert_refused(result, "my_detectors.py cannot be imported (SystemExit: 2, line 2); correct it")
