"""Tensors of a file against those that a model wants."""

from pathlib import Path

import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import check_state, write_tensors


def test_only_exactly_the_wanted_tensors_pass() -> None:
    wanted = {"a": torch.zeros(2), "b": torch.zeros(3, 1)}
    check_state(Path("f"), dict(wanted), wanted)
    for state, says in (
        ({"a": torch.zeros(2)}, "1 tensors missing, 0 unknown, 0 of another shape, first 'b'"),
        (wanted | {"c": torch.zeros(1)}, "0 tensors missing, 1 unknown, 0 of another shape"),
        (wanted | {"a": torch.zeros(5)}, "0 unknown, 1 of another shape, first 'a'"),
    ):
        with pytest.raises(PolyplinkError, match=says):
            check_state(Path("f"), state, wanted)


def test_a_full_disk_leaves_nothing_and_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(tmp_path / "w.safetensors", {"a": torch.zeros(2)}, {})
    assert not list(tmp_path.iterdir())
