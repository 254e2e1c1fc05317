from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.walking import files_below, files_in


def test_files_of_all_folders_in_order(tmp_path: Path) -> None:
    for name in ("b/2.txt", "a.txt", "b/1.txt", "a/x/3.txt", ".hidden.txt", "c.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)]
    assert found == [".hidden.txt", "a.txt", "c.csv", "a/x/3.txt", "b/1.txt", "b/2.txt"]
    assert [path.name for path in files_in(tmp_path, ".txt")] == ["a.txt"]


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(PolyplinkError, match=r"loop: .*; check its permissions"):
        list(files_below(loop))
    with pytest.raises(PolyplinkError, match=r"loop: .*; check its permissions"):
        files_in(loop, ".txt")
