"""Artefacts are whole or absent, and their keys say what they came from."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from polyplink.artefacts import (
    RunRecord,
    content_key,
    file_key,
    read_json,
    to_plain,
    whole_file,
    whole_folder,
    write_json,
)
from polyplink.errors import PolyplinkError


@dataclass(frozen=True)
class Settings:
    size: int
    where: Path


def test_plain_values() -> None:
    assert to_plain({"a": (1, Settings(2, Path("x")))}) == {"a": [1, {"size": 2, "where": "x"}]}
    assert to_plain({3, 1, 2}) == [1, 2, 3]


def test_keys_depend_on_content_alone() -> None:
    assert content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})
    assert content_key(Settings(1, Path("x"))) != content_key(Settings(2, Path("x")))
    assert len(content_key("x")) == 16


def test_file_key(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert file_key(tmp_path / "a").startswith("ba7816bf8f01cfea")  # SHA-256 of "abc"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_file_is_whole_or_untouched(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "table"
    target.write_text("old")
    with pytest.raises(error), whole_file(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    with whole_file(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["table"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_folder_is_whole_or_absent(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "run"
    with pytest.raises(error), whole_folder(target) as temporary:
        (temporary / "a").write_text("half")
        raise error
    assert not list(tmp_path.iterdir())
    with whole_folder(target) as temporary:
        (temporary / "a").write_text("whole")
    assert (target / "a").read_text() == "whole"
    with pytest.raises(PolyplinkError, match="exists already"), whole_folder(target):
        pass


def test_json_errors_are_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="is missing"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(PolyplinkError, match="is not JSON"):
        read_json(tmp_path / "a.json")


def test_run_record(tmp_path: Path) -> None:
    record = RunRecord("train", settings=Settings(3, Path("y")), seed=7, inputs={"data": "k"})
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
    assert list(run["seconds"]) == ["one"]
    assert {"polyplink", "machine", "started", "finished"} <= run.keys()
    write_json(tmp_path / "b.json", run)
    assert read_json(tmp_path / "b.json") == run
