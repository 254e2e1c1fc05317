import zipfile
from pathlib import Path

import pytest

from polyplink.data.files.zip_archive import ZipArchive
from polyplink.errors import PolyplinkError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("b.txt", "second letter")
        packed.writestr("folder/", "")
        packed.writestr("a.txt", "first letter")
    return tmp_path / "x.zip"


def test_members_in_the_order_of_the_archive(path: Path) -> None:
    archive = ZipArchive(path)
    assert archive.names() == ["b.txt", "a.txt"]
    assert not archive.asks_password("a.txt")
    assert list(archive.read(["a.txt", "b.txt"], None)) == [
        ("b.txt", b"second letter"),
        ("a.txt", b"first letter"),
    ]
    assert list(archive.read(["a.txt"], 5)) == [("a.txt", b"first")]


def test_a_damaged_member_is_named(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"first letter", b"worst letter"))
    archive = ZipArchive(path)
    with pytest.raises(PolyplinkError, match=r"x\.zip, member a\.txt, is damaged \(Bad CRC"):
        list(archive.read(["a.txt"], None))


def test_no_permission(path: Path) -> None:
    with pytest.raises(PolyplinkError, match="Is a directory; check its permissions"):
        ZipArchive(path.parent)
