"""Where added weights lie."""

from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.store import (
    check_seal,
    seal,
    store_folder,
    stored,
    stored_path,
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "weights"
    folder.mkdir(parents=True)
    return folder


def test_the_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("POLYPLINK_HOME", raising=False)
    assert store_folder() == tmp_path / "polyplink" / "weights"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert store_folder() == Path.home() / ".local/share/polyplink/weights"
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "own"))
    assert store_folder() == tmp_path / "own" / "weights"
    assert stored() == []


def test_names_are_no_paths(store: Path) -> None:
    stored_path("endofm").write_bytes(b"x")
    assert stored() == [store / "endofm.safetensors"]
    for name in ("", "../x", "a/b", ".hidden"):
        with pytest.raises(PolyplinkError, match="is no name for weights"):
            stored_path(name)


def test_a_changed_file_is_noticed(store: Path) -> None:
    path = stored_path("x")
    path.write_bytes(b"abc")
    check_seal(path)  # nothing beside it: nothing to hold it against
    seal(path)
    check_seal(path)
    path.write_bytes(b"abd")
    with pytest.raises(PolyplinkError, match="not the file that was added"):
        check_seal(path)
