import zipfile
from pathlib import Path

import polars as pl

from polyplink.data import DataSet
from polyplink.data.checks.check_images import check_images
from tests.data.made_sets import small_set

_IMAGES = ["a/b/0.jpg", "a/b/1.jpg", "a/b/1.jpg", "2.jpg"]


def _with_images(root: Path, images: list[str | None]) -> DataSet:
    data = small_set()
    return DataSet.of(
        data.detections.with_columns(image=pl.Series(images, dtype=pl.String)),
        data.procedures.with_columns(source=pl.lit(str(root))),
        data.polyps,
    )


def test_images_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in _IMAGES:
        (tmp_path / name).touch()
    assert check_images(_with_images(tmp_path, list(_IMAGES))) == []


def test_missing_images_are_counted_once_each(tmp_path: Path) -> None:
    (tmp_path / "2.jpg").touch()
    (finding,) = check_images(_with_images(tmp_path, list(_IMAGES)))
    assert (finding.severity, finding.check, finding.count) == ("error", "missing image", 2)
    assert finding.what == f"procedure 001-001, frame 0: no file a/b/0.jpg in {tmp_path}"


def test_boxes_that_name_no_image(tmp_path: Path) -> None:
    (finding,) = check_images(_with_images(tmp_path, [None] * 4))
    assert (finding.severity, finding.check, finding.count) == ("warning", "box without image", 4)


def test_archives_and_videos_are_looked_for(tmp_path: Path) -> None:
    names: list[str | None] = ["a/p.zip!/x/0.jpg", "a/p.zip!/x/1.jpg", "b.tar.gz!/2.jpg", "c.mp4#3"]
    data = _with_images(tmp_path, names)
    assert [(f.check, f.count) for f in check_images(data)] == [("missing image", 4)]
    (tmp_path / "a").mkdir()
    with zipfile.ZipFile(tmp_path / "a" / "p.zip", "w") as archive:
        archive.writestr("x/0.jpg", b"")
    (tmp_path / "b.tar.gz").touch()
    (tmp_path / "c.mp4").touch()
    (finding,) = check_images(data)
    assert finding.count == 1
    assert "no file a/p.zip!/x/1.jpg" in finding.what


def test_a_relative_source_is_relative_to_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "0.jpg").touch()
    data = _with_images(Path("images"), ["0.jpg"] * 4)
    assert check_images(data, tmp_path) == []
    assert [f.check for f in check_images(data, tmp_path / "other")] == ["missing image"]


def test_simulated_boxes_need_no_image(tmp_path: Path) -> None:
    data = _with_images(tmp_path, [None] * 4)
    made = data.procedures.with_columns(dataset=pl.lit("simulated small 0"))
    assert check_images(DataSet.of(data.detections, made, data.polyps)) == []
