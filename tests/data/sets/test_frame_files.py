from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.frame_files import frame_files, read_text


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("")


def test_frames_are_sorted_as_numbers_and_other_files_are_not_looked_at(tmp_path: Path) -> None:
    _touch(tmp_path, "001-001_10.xml", "001-001_9.xml", "001-001_100.xml", "001-001_9.jpg")
    _touch(tmp_path, "._001-001_9.xml", "README")
    assert list(frame_files(tmp_path, ".xml").items()) == [
        (9, "001-001_9.xml"),
        (10, "001-001_10.xml"),
        (100, "001-001_100.xml"),
    ]


def test_point_zero_of_001_012(tmp_path: Path) -> None:
    _touch(tmp_path, "001-012_40104.0.xml", "001-012_2.0.xml")
    assert frame_files(tmp_path, ".xml") == {2: "001-012_2.0.xml", 40104: "001-012_40104.0.xml"}


def test_file_without_number_and_number_twice(tmp_path: Path) -> None:
    _touch(tmp_path, "001-012_2.xml", "001-012_2.0.xml")
    with pytest.raises(PolyplinkError, match=r"has two files for frame 2 .*; remove one of them"):
        frame_files(tmp_path, ".xml")
    _touch(tmp_path, "notes_x.xml")
    (tmp_path / "001-012_2.xml").unlink()
    with pytest.raises(PolyplinkError, match=r"notes_x\.xml has no frame number; name it"):
        frame_files(tmp_path, ".xml")


@pytest.mark.parametrize("length", [0, 1, 65535, 65536, 65537, 200000])
def test_files_of_any_length_are_read_whole(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.xml"
    path.write_text("x" * length)
    assert read_text(str(path)) == "x" * length


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(b"\xff\xfe<")
    with pytest.raises(PolyplinkError, match=r"a\.xml is not UTF-8 text; unpack the archive"):
        read_text(str(path))


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="Is a directory; unpack the archive again") as caught:
        read_text(str(tmp_path))
    assert str(tmp_path) in str(caught.value)
