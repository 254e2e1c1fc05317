import zipfile
from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.zip_archive import ZipArchive


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


def test_a_missing_archive_and_one_cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(PolyplinkError, match=r"x\.zip is not a whole zip archive.*download it"):
        ZipArchive(path)
    with pytest.raises(PolyplinkError, match=r"archive .*none\.zip is missing; restore it"):
        ZipArchive(path.with_name("none.zip"))


def test_a_member_as_a_file_and_what_is_whole_beside_a_damaged_one(path: Path) -> None:
    with ZipArchive(path).open("a.txt") as file:
        assert file.read(5) == b"first"
    path.write_bytes(path.read_bytes().replace(b"first letter", b"worst letter"))
    archive = ZipArchive(path)
    with pytest.raises(PolyplinkError, match="is damaged"), archive.open("a.txt") as file:
        file.read()
    whole, damaged = archive.read_each(["a.txt", "b.txt"])
    assert whole == ("b.txt", b"second letter")
    assert "Bad CRC" in str(damaged[1])


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_whatever_bytes_are_wrong_the_error_is_the_one_for_users(
    tmp_path: Path, packing: int
) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", packing) as packed:
        for k in range(3):
            packed.writestr(f"é/{k}.txt", f"{k} letters {k * 7919}" * 9)
    whole = path.read_bytes()
    rng = np.random.default_rng(packing)
    told = 0
    for _ in range(400):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            archive = ZipArchive(path)
            told += sum(isinstance(d, str) for _, d in archive.read_each(archive.names()))
        except PolyplinkError:
            told += 1
    assert told > 200
