import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import (
    BLOCK,
    Archive,
    is_archive,
    member_reader,
    read_archived,
    read_members,
)
from tests.data.packing import pack

FILES = {"b.txt": b"second letter", "c.jpg": b"picture", "a.txt": b"first letter"}


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
@pytest.mark.parametrize("folder", ["", "packed/", "./"])
def test_members_are_read_by_full_or_last_name(tmp_path: Path, name: str, folder: str) -> None:
    path = pack(tmp_path / name, {folder + member: data for member, data in FILES.items()})
    archive = Archive(path)
    assert archive.names == [folder + member for member in FILES]  # in the archive's order
    starts = list(archive.read([f"{folder}c.jpg", f"{folder}b.txt"], 3))
    assert starts == [(f"{folder}b.txt", b"sec"), (f"{folder}c.jpg", b"pic")]
    assert is_archive(name.upper())
    assert not is_archive("a.gz")
    assert dict(read_archived(path, ["c.jpg", "none.jpg", "a.txt"])) == {
        "a.txt": b"first letter",
        "c.jpg": b"picture",
        "none.jpg": "not in the archive",
    }
    read = member_reader(path)
    for member, data in FILES.items():
        assert read(member) == read(folder + member) == data
    if not path.name.endswith("gz"):
        assert read("none.jpg") == "not in the archive"
    with pytest.raises(PolyplinkError, match=r"has no member none\.jpg; give the archive of"):
        list(read_archived(path, ["none.jpg"]))


def test_a_damaged_member_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.zip", FILES)
    archive = Archive(path)
    assert not archive.locked
    path.write_bytes(path.read_bytes().replace(b"first letter", b"worst letter"))
    with pytest.raises(PolyplinkError, match=r"x\.zip, member a\.txt, is damaged \(Bad CRC"):
        list(archive.read(["a.txt"]))
    intact, damaged = read_archived(path, ["a.txt", "b.txt"])
    assert intact == ("b.txt", b"second letter")
    assert "Bad CRC" in str(damaged[1])


def test_missing_and_truncated_archives_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.zip", FILES)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(PolyplinkError, match=r"x\.zip is not a whole zip archive.*download it"):
        Archive(path)
    with pytest.raises(PolyplinkError, match=r"archive .*none\.zip is missing; restore it"):
        Archive(tmp_path / "none.zip")
    with pytest.raises(PolyplinkError, match="Is a directory; check its permissions"):
        Archive(tmp_path)


def test_texts_of_a_compressed_tar_are_read_in_one_pass(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.tar.gz", FILES)
    archive = Archive(path)
    path.unlink()
    assert list(archive.read(["b.txt"])) == [("b.txt", b"second letter")]
    with pytest.raises(PolyplinkError, match=r"archive .*x\.tar\.gz is missing"):
        list(archive.read(["c.jpg"]))


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_corrupted_zip_archives_raise_only_polyplink_errors(tmp_path: Path, packing: int) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", packing) as opened:
        for k in range(3):
            opened.writestr(f"é/{k}.txt", f"{k} letters {k * 7919}" * 9)
    content = path.read_bytes()
    rng = np.random.default_rng(packing)
    reported = 0
    for _ in range(60):
        data = bytearray(content)
        for position in rng.integers(0, len(data), 3):
            data[position] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            read = read_archived(path, Archive(path).names)
            reported += sum(isinstance(data, str) for _, data in read)
        except PolyplinkError:
            reported += 1
    assert reported > 30


def all_members(path: Path) -> list[tuple[str, bytes]]:
    return list(read_members(path, lambda name: True))


_part = st.text("abcé_0", min_size=1, max_size=30)
_name = st.lists(_part, min_size=1, max_size=9).map("/".join)
_files = st.dictionaries(_name, st.binary(max_size=3 * BLOCK), max_size=6)


@settings(max_examples=25)
@given(
    files=_files,
    layout=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    ending=st.sampled_from(["tar", "tar.gz"]),
)
def test_read_members_equals_tarfile(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], layout: int, ending: str
) -> None:
    path = pack(tmp_path_factory.mktemp("tar") / f"a.{ending}", files, layout)
    assert all_members(path) == list(files.items())
    read, last_parts = member_reader(path), [name.rpartition("/")[2] for name in files]
    for name, content in files.items():
        if last_parts.count(name) <= ("/" not in name):  # it names no other file by its last part
            assert read(name) == content
    with tarfile.open(path) as archive:
        assert [name for name, _ in all_members(path)] == archive.getnames()


def test_long_names_of_ustar_archives_are_joined(tmp_path: Path) -> None:
    name = "a" * 80 + "/" + "b" * 90
    assert all_members(pack(tmp_path / "a.tar", {name: b"x"}, tarfile.USTAR_FORMAT)) == [
        (name, b"x")
    ]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_read_members_selects_by_name_and_skips_folders_and_links(
    tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, kind in (("d", tarfile.DIRTYPE), ("l", tarfile.SYMTYPE), ("h", tarfile.LNKTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "d/x.xml"
            archive.addfile(info)
        for name, size in (("d/x.xml", 700), ("d/big.jpg", 3 << 20), ("d/y.xml", 512)):
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(bytes(size)))
    texts = list(read_members(path, lambda name: name.endswith(".xml")))
    assert [(name, len(data)) for name, data in texts] == [("d/x.xml", 700), ("d/y.xml", 512)]
    assert [name for name, _ in all_members(path)] == ["d/x.xml", "d/big.jpg", "d/y.xml"]
    starts = list(read_members(path, lambda name: True, 600))
    assert [(name, len(data)) for name, data in starts] == [
        ("d/x.xml", 600),
        ("d/big.jpg", 600),
        ("d/y.xml", 512),
    ]


def test_every_truncation_of_a_tar_is_refused(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar.gz", {f"{i}.xml": bytes([i]) * 300 for i in range(4)})
    data = archive.read_bytes()
    for size in range(0, len(data), 3):
        archive.write_bytes(data[:size])
        with pytest.raises(PolyplinkError, match=r"a\.tar\.gz (is cut short|is damaged|is no tar)"):
            list(read_members(archive, lambda _: False))
    uncompressed = gzip.decompress(data)
    for size in range(0, 4 * 2 * BLOCK, 256):
        archive.write_bytes(uncompressed[:size])
        with pytest.raises(PolyplinkError, match="is cut short; download it again"):
            list(read_members(archive, lambda _: False))


def test_damaged_tars_and_other_files_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.tar", {"x": b"1" * 600})
    data = bytearray(path.read_bytes())
    data[3] ^= 1  # the name
    path.write_bytes(data)
    with pytest.raises(PolyplinkError, match="is no tar archive, or is damaged"):
        all_members(path)
    data[3] ^= 1
    compressed = bytearray(gzip.compress(bytes(data)))
    compressed[-6] ^= 255  # the checksum
    for content in (b"<html>" + b"not found " * 200, compressed):
        path.write_bytes(content)
        with pytest.raises(PolyplinkError, match="is no tar archive, or is damaged"):
            all_members(path)
