"""Weights by path, by run folder or by name."""

from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import weights_path
from polyplink.encoders.store import stored, stored_path


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "weights"
    folder.mkdir(parents=True)
    return folder


def test_names_find_what_was_added(store: Path, tmp_path: Path) -> None:
    path = stored_path("endofm")
    path.write_bytes(b"x")
    assert weights_path(Path("endofm")) == path == store / "endofm.safetensors"
    assert weights_path(Path("endofm.safetensors")) == path
    assert stored() == [path]
    run = tmp_path / "run"
    run.mkdir()
    (run / "weights.safetensors").write_bytes(b"x")
    assert weights_path(run) == run / "weights.safetensors"


def test_known_weights_that_are_missing_say_where_they_are_to_be_had(store: Path) -> None:
    with pytest.raises(PolyplinkError) as caught:
        weights_path(Path("endofm"))
    for part in ("Endo-FM", "1H7B91Ewm4QkZRsnUk1Bn0IQch5P8C7Xl", "Apache-2.0", "weights add"):
        assert part in str(caught.value)
    for nothing in (Path("nothing"), Path("some/where")):
        with pytest.raises(PolyplinkError, match=f"no weights at {nothing}"):
            weights_path(nothing)
