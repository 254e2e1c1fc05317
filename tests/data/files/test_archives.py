import zipfile
from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import Archive, is_archive, read_archived
from tests.data.packed import pack

FILES = {"b.txt": b"second letter", "c.jpg": b"picture", "a.txt": b"first letter"}


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
def test_members_in_the_order_of_the_archive(tmp_path: Path, name: str) -> None:
    archive = Archive(pack(tmp_path / name, FILES))
    assert archive.names == list(FILES)
    read = list(archive.read(["c.jpg", "b.txt"]))
    assert read == [("b.txt", b"second letter"), ("c.jpg", b"picture")]
    assert dict(archive.read(["a.txt", "c.jpg"], 3)) == {"a.txt": b"fir", "c.jpg": b"pic"}
    assert is_archive(name.upper())
    assert not is_archive("a.gz")


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
@pytest.mark.parametrize("folder", ["", "packed/"])
def test_wanted_members_are_found_by_their_last_part_too(
    tmp_path: Path, name: str, folder: str
) -> None:
    path = pack(tmp_path / name, {folder + member: data for member, data in FILES.items()})
    assert dict(read_archived(path, ["c.jpg", "none.jpg", "a.txt"])) == {
        "a.txt": b"first letter",
        "c.jpg": b"picture",
        "none.jpg": "not in the archive",
    }
    with pytest.raises(PolyplinkError, match=r"has no member none\.jpg; give the archive of"):
        list(read_archived(path, ["none.jpg"]))


def test_a_damaged_member_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.zip", FILES)
    archive = Archive(path)
    assert not archive.locked
    path.write_bytes(path.read_bytes().replace(b"first letter", b"worst letter"))
    with pytest.raises(PolyplinkError, match=r"x\.zip, member a\.txt, is damaged \(Bad CRC"):
        list(archive.read(["a.txt"]))
    whole, damaged = read_archived(path, ["a.txt", "b.txt"])
    assert whole == ("b.txt", b"second letter")
    assert "Bad CRC" in str(damaged[1])


def test_missing_archives_and_those_cut_short(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.zip", FILES)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(PolyplinkError, match=r"x\.zip is not a whole zip archive.*download it"):
        Archive(path)
    with pytest.raises(PolyplinkError, match=r"archive .*none\.zip is missing; restore it"):
        Archive(tmp_path / "none.zip")
    with pytest.raises(PolyplinkError, match="Is a directory; check its permissions"):
        Archive(tmp_path)


def test_texts_of_a_compressed_tar_need_no_second_pass(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tar.gz", FILES)
    archive = Archive(path)
    path.unlink()
    assert list(archive.read(["b.txt"])) == [("b.txt", b"second letter")]
    with pytest.raises(PolyplinkError, match=r"archive .*x\.tar\.gz is missing"):
        list(archive.read(["c.jpg"]))


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
    reported = 0
    for _ in range(400):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            read = read_archived(path, Archive(path).names)
            reported += sum(isinstance(data, str) for _, data in read)
        except PolyplinkError:
            reported += 1
    assert reported > 200
