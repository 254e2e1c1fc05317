import zipfile
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.cvat_files import cvat_paths, member_images, open_cvat


def test_files_and_archives(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<a/>")
    (tmp_path / ".b.xml").touch()
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("annotations.xml", "<c/>")
        archive.writestr("images/frame_000012.PNG", b"")
        archive.writestr("images/other.png", b"")
    plain, packed = cvat_paths(tmp_path)
    assert (plain.name, packed.name) == ("a.xml", "c.zip!/annotations.xml")
    for path, text in ((plain, b"<a/>"), (packed, b"<c/>")):
        with open_cvat(path) as stream:
            assert stream.read() == text
    assert member_images(plain) == {}
    assert member_images(packed) == {12: "images/frame_000012.PNG"}


def test_an_archive_that_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "c.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("annotations.xml", "<c/>" * 100)
    path.write_bytes(path.read_bytes().replace(b"<c/><c/><c/>", b"<c/><x/><c/>", 1))
    (found,) = cvat_paths(path)
    with (
        pytest.raises(PolyplinkError, match=r"c\.zip, member annotations\.xml, is damaged"),
        open_cvat(found) as stream,
    ):
        stream.read()
