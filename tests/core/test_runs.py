"""Runs are recorded, and several at once share files, but not an output folder."""

import itertools
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from filelock import FileLock

from polyplink.core.errors import PolyplinkError
from polyplink.core.runs import RunRecord, file_claim, sole_writer, until_done


def test_a_run_is_recorded_and_the_folder_of_another_command_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=1.5)
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    record = RunRecord(
        "train", settings={"size": 3, "where": Path("y")}, seed=7, inputs={"data": "k"}
    )
    with record.stage("one"):
        pass
    with record.stage("one"):
        pass
    record.write(tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["command"] == "train"
    assert run["settings"] == {"size": 3, "where": "y"}
    assert run["seed"] == 7
    assert run["inputs"] == {"data": "k"}
    assert run["seconds"] == {"one": 3.0}  # of both stages of this name
    assert {"polyplink", "machine", "started", "finished"} <= run.keys()
    RunRecord("train").claim(tmp_path)
    RunRecord("count").claim(tmp_path / "new")
    with pytest.raises(PolyplinkError, match="holds a run of `train`; name another folder"):
        RunRecord("count").claim(tmp_path)
    for text, message in (
        ("[1]", r"run\.json was not written by polyplink; name another folder"),
        ("null", r"run\.json was not written by polyplink; name another folder"),
        ('{"speed": 3}', "holds a run of `another program`; name another folder"),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(PolyplinkError, match=message):
            RunRecord("count").claim(tmp_path)


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "out"):
        (tmp_path / "out" / "a").touch()
        busy = "another command writes into .*out at the moment; wait until it has ended"
        with pytest.raises(PolyplinkError, match=busy), sole_writer(tmp_path / "out"):
            raise AssertionError
    with sole_writer(tmp_path / "out"):
        assert [path.name for path in (tmp_path / "out").glob("[!.]*")] == ["a"]
    with pytest.raises(KeyboardInterrupt), sole_writer(tmp_path / "new"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]


def test_a_folder_without_permission_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write into any folder
    refused = f"no permission to write into {tmp_path}"
    with pytest.raises(PolyplinkError, match=refused), sole_writer(tmp_path):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


def write_files(folder: Path, names: list[str], mark: str) -> None:
    """Write files that name their process, as `prepare` and `embed` write theirs."""
    for names_to_make in until_done(names, lambda name: (folder / name).is_file()):
        for name in names_to_make:
            with file_claim(folder / name) as claimed_here:
                if claimed_here and not (folder / name).is_file():
                    with (folder / f"{name}.writers").open("a") as writers:
                        writers.write(mark)
                    (folder / name).write_text(mark)


def test_processes_write_each_file_once(tmp_path: Path) -> None:
    names = [f"{k:03}" for k in range(200)]
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=write_files, args=(tmp_path, names, "a"))
    other.start()
    while other.is_alive() and not (tmp_path / names[0]).is_file():
        time.sleep(0.001)
    write_files(tmp_path, names, "b")
    other.join()
    assert other.exitcode == 0
    assert {len((tmp_path / f"{name}.writers").read_text()) for name in names} == {1}
    assert not list(tmp_path.glob(".*"))  # the locks are removed


def test_a_claimed_file_is_waited_for_and_written_once_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = file_claim(tmp_path / "b")
    assert claim.__enter__()
    pauses = []

    def release(_: float) -> None:
        pauses.append([(tmp_path / name).is_file() for name in "ac"])
        claim.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", release)
    write_files(tmp_path, ["a", "b", "c"], "x")
    assert pauses == [[True, True]]  # once, after the files that nobody has claimed
    assert [(tmp_path / name).read_text() for name in "abc"] == ["x"] * 3


def test_files_are_written_where_locks_are_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(self: object, **_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(FileLock, "acquire", unsupported)
    write_files(tmp_path, ["a"], "x")
    assert (tmp_path / "a").read_text() == "x"
