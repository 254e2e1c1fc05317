"""Files that several processes write together."""

import multiprocessing
import time
from pathlib import Path

import pytest
from filelock import FileLock

from polyplink.core.errors import PolyplinkError
from polyplink.core.sharing import claimed, rounds, sole_writer


def write_files(folder: Path, names: list[str], mark: str) -> None:
    """Write files that name their process, as `prepare` and `embed` write theirs."""
    for names_to_make in rounds(names, lambda name: (folder / name).is_file()):
        for name in names_to_make:
            with claimed(folder / name) as claimed_here:
                if claimed_here and not (folder / name).is_file():
                    with (folder / f"{name}.writers").open("a") as writers:
                        writers.write(mark)
                    (folder / name).write_text(mark)


def test_processes_write_each_file_once(tmp_path: Path) -> None:
    names = [f"{k:03}" for k in range(60)]
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=write_files, args=(tmp_path, names, mark)) for mark in "ab"]
    for other in others:
        other.start()
    write_files(tmp_path, names, "c")
    for other in others:
        other.join()
        assert other.exitcode == 0
    assert {len((tmp_path / f"{name}.writers").read_text()) for name in names} == {1}
    assert not list(tmp_path.glob(".*"))  # the locks are removed


def test_a_claimed_file_is_waited_for_and_written_once_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(tmp_path / "b")
    assert claim.__enter__()
    pauses = []

    def release(_: float) -> None:
        pauses.append([(tmp_path / name).is_file() for name in "ac"])
        claim.__exit__(None, None, None)

    monkeypatch.setattr(time, "sleep", release)
    write_files(tmp_path, ["a", "b", "c"], "x")
    assert pauses == [[True, True]]  # once, after the files that nobody has claimed
    assert [(tmp_path / name).read_text() for name in "abc"] == ["x"] * 3


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


def test_files_are_written_where_locks_are_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(self: object, **_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(FileLock, "acquire", unsupported)
    write_files(tmp_path, ["a"], "x")
    assert (tmp_path / "a").read_text() == "x"
