import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.real_colon_files import (
    annotation_texts,
    frames_place,
    image_names,
    place_of,
)

FILES = {"p_10.xml": "ten", "p_2.xml": "two", "p_3.0.xml": "three"}
ENDS = ("", ".tar.gz", ".tar", ".zip")


def write(root: Path, end: str, files: dict[str, str], prefix: str = "p_annotations/") -> Path:
    place = root / f"p_annotations{end}"
    if end == "":
        place.mkdir()
        for name, text in files.items():
            (place / name).write_text(text)
    elif end == ".zip":
        with zipfile.ZipFile(place, "w") as zipped:
            for name, text in files.items():
                zipped.writestr(prefix + name, text)
    else:
        with tarfile.open(place, "w:gz" if end == ".tar.gz" else "w:") as archive:
            for name, text in files.items():
                info = tarfile.TarInfo(prefix + name)
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text.encode()))
    return place


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("prefix", ["", "p_annotations/", "./a/b/"])
def test_numbers_names_and_texts(tmp_path: Path, end: str, prefix: str) -> None:
    others = {"._p_2.xml": "left by a Mac", "p_2.jpg": "an image", "read.me": ""}
    place = write(tmp_path, end, FILES | others, prefix)
    expected = [(2, "p_2.xml", "two"), (3, "p_3.0.xml", "three"), (10, "p_10.xml", "ten")]
    assert sorted(annotation_texts(place)) == expected


@pytest.mark.parametrize("end", ENDS)
def test_names_that_cannot_be_placed(tmp_path: Path, end: str) -> None:
    with pytest.raises(PolyplinkError, match=r"two files for frame 3"):
        list(annotation_texts(write(tmp_path, end, {"p_3.xml": "", "p_3.0.xml": ""})))
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(PolyplinkError, match=r"x\.xml has no frame number"):
        list(annotation_texts(write(other, end, {"x.xml": ""})))


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    place = write(tmp_path, ".zip", FILES)
    place.write_bytes(place.read_bytes()[:-30])
    with pytest.raises(PolyplinkError, match=r"p_annotations\.zip is not a whole zip archive "):
        list(annotation_texts(place))


def test_procedures_by_the_names_of_folders_and_archives() -> None:
    kinds = ("annotations", "annotation")
    for name in ("001-001_annotations", "001-001_annotation.tar.gz", "001-001_annotations.zip"):
        assert place_of(name, kinds) == "001-001"
    for name in (
        "001-001_frames",
        "annotations",
        ".001-001_annotations",
        "001-001_annotations.md",
    ):
        assert place_of(name, kinds) is None


def test_images_of_a_folder_of_an_archive_and_of_none(tmp_path: Path) -> None:
    files = {2: "p_2.xml", 3: "p_3.0.xml"}
    assert frames_place(tmp_path, "p_frames") is None
    assert image_names(None, files) == {}
    (tmp_path / "p_frames.tar.gz").touch()
    archive = frames_place(tmp_path, "p_frames")
    assert image_names(archive, files) == {
        2: "p_frames.tar.gz!/p_2.jpg",
        3: "p_frames.tar.gz!/p_3.0.jpg",
    }
    (tmp_path / "p_frames").mkdir()
    (tmp_path / "p_frames" / "p_3.0.jpg").touch()
    assert image_names(frames_place(tmp_path, "p_frames"), files) == {3: "p_frames/p_3.0.jpg"}
