"""Artefacts are complete or absent, and their keys depend on their inputs."""

import errno
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import pytest
from pydantic import ValidationError

from polyplink.core.artefacts import (
    ADDED_LATER,
    atomic_file,
    atomic_folder,
    change_folder,
    content_key,
    file_key,
    finish_change,
    from_plain,
    read_json,
    to_plain,
)
from polyplink.core.errors import PolyplinkError


@dataclass(frozen=True)
class Settings:
    size: int
    where: Path


def test_plain_values_round_trip() -> None:
    assert to_plain({"a": (1, Settings(2, Path("x")))}) == {"a": [1, {"size": 2, "where": "x"}]}
    assert to_plain({3, 1, 2}) == [1, 2, 3]
    assert from_plain(Settings, to_plain(Settings(2, Path("x")))) == Settings(2, Path("x"))
    with pytest.raises(ValidationError, match="size"):
        from_plain(Settings, {"size": "two", "where": "x"})


def test_keys_depend_on_content_alone() -> None:
    assert content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})
    assert content_key(Settings(1, Path("x"))) != content_key(Settings(2, Path("x")))
    assert len(content_key("x")) == 16


def test_a_field_added_later_changes_records_and_keys_only_if_it_is_set() -> None:
    @dataclass(frozen=True)
    class Old:
        price: float

    @dataclass(frozen=True)
    class New:
        price: float
        tolerance: float = field(default=0.9, metadata=ADDED_LATER)

    assert to_plain(New(1.0)) == {"price": 1.0}
    assert content_key(New(1.0)) == content_key(Old(1.0)) != content_key(New(1.0, 0.5))
    assert from_plain(New, to_plain(New(1.0, 0.5))) == New(1.0, 0.5)
    assert from_plain(New, {"price": 1.0}) == New(1.0)


def test_file_key_is_the_start_of_sha_256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert file_key(tmp_path / "a").startswith("ba7816bf8f01cfea")  # SHA-256 of "abc"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_file_is_complete_or_unchanged(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "table"
    target.write_text("old")
    with pytest.raises(error), atomic_file(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    with atomic_file(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["table"]


def test_a_folder_is_complete_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt), atomic_folder(target) as temporary:
        (temporary / "a").write_text("half")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with atomic_folder(target) as temporary:
        (temporary / "a").write_text("whole")
    assert (target / "a").read_text() == "whole"
    with pytest.raises(PolyplinkError, match="exists already"), atomic_folder(target):
        pass
    other = tmp_path / "other"
    with pytest.raises(PolyplinkError, match="exists already"), atomic_folder(other) as second:
        (second / "a").write_text("late")
        with atomic_folder(other) as first:  # as if another process were faster
            (first / "a").write_text("first")
    assert (other / "a").read_text() == "first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "run"]


def test_a_broken_json_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="is missing"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(PolyplinkError, match="is not valid JSON"):
        read_json(tmp_path / "a.json")


def test_parts_of_killed_runs_are_removed_and_parts_of_live_runs_stay(tmp_path: Path) -> None:
    target = tmp_path / "table"
    with atomic_file(target) as first:
        first.write_text("x")
        node = first.name.split(".")[2].split("-")[0]
        dead = tmp_path / f".table.{node}-999999999-abcdef01.part"
        other_machine = tmp_path / ".table.ffffffff-1-abcdef01.part"
        for path in (dead, other_machine):
            path.write_text("half")
        with atomic_file(target) as second:  # a second write of this process, which is alive
            second.write_text("y")
        assert first.is_file()
    assert {p.name for p in tmp_path.iterdir()} == {"table", other_machine.name}


def test_errors_name_the_target_and_not_the_hidden_file(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError) as caught, atomic_file(tmp_path / "a") as temporary:
        temporary.write_text("x")
    assert caught.value.filename == str(tmp_path / "a")
    with pytest.raises(OSError) as caught, atomic_file(tmp_path / "c"):
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(tmp_path / "c")
    with pytest.raises(OSError) as caught, atomic_folder(tmp_path / "d") as temporary:
        raise OSError(28, "No space left on device", str(temporary / "e" / "f"))
    assert caught.value.filename == str(tmp_path / "d")


@pytest.mark.parametrize(
    "error",
    [
        OSError("100000 requested and 7664 written"),  # numpy
        OSError("No space left on device (os error 28)"),  # polars
        ValueError("Error while serializing: I/O error: No space left on device (os error 28)"),
        av.error.OSError(28, "No space left on device"),
    ],
)
def test_a_full_disk_is_recognised_in_errors_of_libraries(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught, atomic_folder(tmp_path / "a"):
        raise error
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "a"))
    assert not list(tmp_path.iterdir())


def test_files_change_together_and_a_committed_change_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state() -> dict[str, str]:
        return {path.name: path.read_text() for path in tmp_path.iterdir()}

    (tmp_path / "other").write_text("stays")
    with change_folder(tmp_path, ("map",)) as new:
        for name in ("a", "b", "map"):
            (new / name).write_text("1")
    first = {"other": "stays", "a": "1", "b": "1", "map": "1"}
    assert state() == first
    with pytest.raises(KeyboardInterrupt), change_folder(tmp_path, ("map",)) as new:
        (new / "a").write_text("2")
        raise KeyboardInterrupt
    assert state() == first
    with monkeypatch.context() as patch:  # as if killed right after the rename that commits
        patch.setattr("polyplink.core.artefacts.finish_change", lambda _: None)
        with change_folder(tmp_path, ("map",)) as new:
            (new / "a").write_text("3")
            (new / "b").write_text("3")
    assert (tmp_path / "a").read_text() == "1"
    finish_change(tmp_path)
    finish_change(tmp_path)
    assert state() == {"other": "stays", "a": "3", "b": "3"}


def test_a_change_of_subfolders_is_finished_wherever_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events_left = math.inf  # file events until the process is killed

    def until_killed(event: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **options: Any) -> Any:
            nonlocal events_left
            events_left -= 1
            if events_left < 0:
                raise KeyboardInterrupt
            return event(*args, **options)

        return act

    def write(folder: Path, content: str, *names: str) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)

    for name in ("replace", "unlink", "rmdir"):
        monkeypatch.setattr(Path, name, until_killed(getattr(Path, name)))
    interrupted = 0
    for events in range(20):
        folder, events_left = tmp_path / str(events), math.inf
        write(folder, "old", "table", "stays/x", "mot/a/gt", "mot/b/gt", "mot/side")
        with suppress(KeyboardInterrupt), change_folder(folder, ("mot", "coco")) as new:
            write(new, "new", "table", "mot/b/gt", "coco/c")
            events_left = events
        interrupted += events_left < 0
        events_left = math.inf
        finish_change(folder)
        paths = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
        files = {name: path.read_text() for name, path in paths.items() if path.is_file()}
        assert files == {"stays/x": "old", "table": "new", "mot/b/gt": "new", "coco/c": "new"}
        assert paths.keys() - files.keys() == {"stays", "mot", "mot/b", "coco"}
    assert interrupted > 5
