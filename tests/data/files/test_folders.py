import os
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import IMAGE_ENDINGS, files_by_number, files_in, videos_in


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
    assert files_by_number(tmp_path, IMAGE_ENDINGS) == {1: "000001.jpg", 10: "10.png"}
    assert files_by_number(tmp_path / "nowhere", IMAGE_ENDINGS) == {}


def test_videos_are_files_in_natural_order_and_names_that_are_not_utf_8_are_refused(
    tmp_path: Path,
) -> None:
    fill(tmp_path, "b10.mp4", "b2.AVI", ".c.mp4", "d.jpg", "e.mp4/f.mp4")
    assert [path.name for path in videos_in(tmp_path)] == ["b2.AVI", "b10.mp4"]
    assert videos_in(tmp_path / "nowhere") == []
    fill(tmp_path, os.fsdecode(b"\xff.mp4"))
    with pytest.raises(PolyplinkError, match="is not UTF-8; rename it"):
        videos_in(tmp_path)
