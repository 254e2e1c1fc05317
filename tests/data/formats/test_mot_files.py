from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.formats.mot_files import mot_sequences


def test_sequences_wherever_they_are(tmp_path: Path) -> None:
    for name in ("a/gt/gt.txt", "train/b/gt/gt.txt", "train/b/det/det.txt", "test/c/det/det.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    faults = Faults()
    found = mot_sequences(tmp_path, None, faults)
    assert sorted((s.name, s.truth, s.part) for s in found) == [
        ("a", True, None),
        ("b", True, "train"),
        ("c", False, "test"),
    ]
    assert len(faults.lines()) == 1
    assert [s.name for s in mot_sequences(tmp_path, "det", Faults())] == ["c", "b"]
    assert [s.name for s in mot_sequences(tmp_path / "a", None, Faults())] == ["a"]


def test_flat_results(tmp_path: Path) -> None:
    (tmp_path / "v.txt").touch()
    (found,) = mot_sequences(tmp_path, None, Faults())
    assert (found.name, found.truth, found.folder) == ("v", False, tmp_path / "v")
    (again,) = mot_sequences(tmp_path / "v.txt", "gt", Faults())
    assert again.truth
    with pytest.raises(PolyplinkError, match="no kind 'truth'; choose one of: gt, det"):
        mot_sequences(tmp_path, "truth", Faults())
