from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import (
    IMAGE_ENDINGS,
    files_in,
    numbered,
)


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_files_are_listed_by_suffix_and_an_unreadable_folder_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "b/2.txt", "b.txt", "a.txt", ".hidden.txt", "c.csv")
    assert [path.name for path in files_in(tmp_path, ".txt")] == ["a.txt", "b.txt"]
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(PolyplinkError, match=r"loop: .*; check its permissions"):
        files_in(loop, ".txt")


def test_numbered_lists_files_by_their_number(tmp_path: Path) -> None:
    fill(tmp_path, "000001.jpg", "f_10.JPG", "10.png", ".2.jpg", "3.txt", "none.jpg")
    assert numbered(tmp_path, IMAGE_ENDINGS) == {1: "000001.jpg", 10: "10.png"}
    assert numbered(tmp_path / "nowhere", IMAGE_ENDINGS) == {}
