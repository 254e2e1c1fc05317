from pathlib import Path

import polars as pl

from polyplink.data.files.image_files import IMAGE_ENDINGS, numbered, present, video_beside


def test_which_images_are_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/1.jpg", "v.mp4", "t.zip"):
        (tmp_path / name).touch()
    names = ["a/1.jpg", "a/2.jpg", "v.mp4#7", "w.mp4#7", "t.zip!/x/1.jpg", "b/1.jpg", None]
    folders = pl.Series([str(tmp_path)] * len(names))
    there = present(pl.Series(names), folders).to_list()
    assert there == [True, False, True, False, True, False, None]
    assert present(pl.Series([None, None], dtype=pl.Null), folders[:2]).null_count() == 2


def test_a_video_by_its_name(tmp_path: Path) -> None:
    for name in ("case 1.mp4", "b.mkv", "c.txt"):
        (tmp_path / name).touch()
    assert video_beside(tmp_path, "case 1") == "case 1.mp4"
    assert video_beside(tmp_path, "case 1.mp4") == "case 1.mp4"
    assert video_beside(tmp_path, "b") == "b.mkv"
    assert video_beside(tmp_path, "c") is None
    assert video_beside(tmp_path / "nowhere", "b") is None


def test_files_by_number(tmp_path: Path) -> None:
    for name in ("000001.jpg", "f_10.JPG", "10.png", ".2.jpg", "3.txt", "none.jpg"):
        (tmp_path / name).touch()
    assert numbered(tmp_path, IMAGE_ENDINGS) == {1: "000001.jpg", 10: "10.png"}
    assert numbered(tmp_path / "nowhere", IMAGE_ENDINGS) == {}
