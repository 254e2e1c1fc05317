"""Files that several processes make together."""

import multiprocessing
import time
from pathlib import Path

import pytest
from filelock import FileLock

from polyplink.core.errors import PolyplinkError
from polyplink.core.sharing import claimed, rounds, sole_writer


def make(folder: Path, names: list[str], mark: str) -> None:
    """Make files with their maker's mark, as `prepare` and `embed` do."""
    for missing in rounds(names, lambda name: (folder / name).is_file()):
        for name in missing:
            with claimed(folder / name) as mine:
                if mine and not (folder / name).is_file():
                    with (folder / f"{name}.makers").open("a") as makers:
                        makers.write(mark)
                    (folder / name).write_text(mark)


def test_processes_make_each_file_once(tmp_path: Path) -> None:
    names = [f"{k:03}" for k in range(60)]
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=make, args=(tmp_path, names, mark)) for mark in "ab"]
    for other in others:
        other.start()
    make(tmp_path, names, "c")
    for other in others:
        other.join()
        assert other.exitcode == 0
    assert {len((tmp_path / f"{name}.makers").read_text()) for name in names} == {1}
    assert not list(tmp_path.glob(".*"))  # the locks are removed


def test_what_another_process_holds_is_waited_for_and_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = claimed(tmp_path / "b")
    assert other.__enter__()
    paused = []

    def ends(seconds: float) -> None:
        paused.append(seconds)
        other.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", ends)
    make(tmp_path, ["a", "b", "c"], "x")
    assert len(paused) == 1
    assert [(tmp_path / name).read_text() for name in "abc"] == ["x"] * 3


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
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


def test_a_folder_without_locks_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(self: object, **_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(FileLock, "acquire", unsupported)
    make(tmp_path, ["a"], "x")
    assert (tmp_path / "a").read_text() == "x"
