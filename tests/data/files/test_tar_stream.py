import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import BLOCK, read_members
from tests.data.packed import pack


def everything(path: Path) -> list[tuple[str, bytes]]:
    return list(read_members(path, lambda name: True))


_part = st.text("abcé_0", min_size=1, max_size=30)
_name = st.lists(_part, min_size=1, max_size=9).map("/".join)
_files = st.dictionaries(_name, st.binary(max_size=3 * BLOCK), max_size=6)


@settings(deadline=None, max_examples=80)
@given(
    files=_files,
    layout=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    ending=st.sampled_from(["tar", "tar.gz"]),
)
def test_equals_tarfile(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], layout: int, ending: str
) -> None:
    path = pack(tmp_path_factory.mktemp("tar") / f"a.{ending}", files, layout)
    assert everything(path) == list(files.items())
    with tarfile.open(path) as archive:
        assert [name for name, _ in everything(path)] == archive.getnames()


def test_a_name_in_two_fields(tmp_path: Path) -> None:
    name = "a" * 80 + "/" + "b" * 90
    assert everything(pack(tmp_path / "a.tar", {name: b"x"}, tarfile.USTAR_FORMAT)) == [
        (name, b"x")
    ]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_only_what_is_wanted_is_read_and_folders_and_links_are_not_files(
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
    found = list(read_members(path, lambda name: name.endswith(".xml")))
    assert [(name, len(data)) for name, data in found] == [("d/x.xml", 700), ("d/y.xml", 512)]
    assert [name for name, _ in everything(path)] == ["d/x.xml", "d/big.jpg", "d/y.xml"]
    begun = list(read_members(path, lambda name: True, 600))
    assert [(name, len(data)) for name, data in begun] == [
        ("d/x.xml", 600),
        ("d/big.jpg", 600),
        ("d/y.xml", 512),
    ]


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    whole = pack(tmp_path / "a.tar.gz", {f"{i}.xml": bytes([i]) * 300 for i in range(4)})
    data = whole.read_bytes()
    for size in range(0, len(data)):
        whole.write_bytes(data[:size])
        with pytest.raises(PolyplinkError, match=r"a\.tar\.gz (is cut short|is damaged|is no tar)"):
            list(read_members(whole, lambda _: False))
    plain = gzip.decompress(data)
    for size in range(0, 4 * 2 * BLOCK, 256):
        whole.write_bytes(plain[:size])
        with pytest.raises(PolyplinkError, match="is cut short; download it again"):
            list(read_members(whole, lambda _: False))


def test_damage_and_other_files_are_named(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.tar", {"x": b"1" * 600})
    data = bytearray(path.read_bytes())
    data[3] ^= 1  # the name
    path.write_bytes(data)
    with pytest.raises(PolyplinkError, match="is no tar archive, or is damaged"):
        everything(path)
    path.write_bytes(b"<html>" + b"not found " * 200)
    with pytest.raises(PolyplinkError, match="is no tar archive, or is damaged"):
        everything(path)
    packed = bytearray(gzip.compress(bytes(data)))
    packed[-5] ^= 255  # the checksum
    path.write_bytes(packed)
    data[3] ^= 1
    packed = bytearray(gzip.compress(bytes(data)))
    packed[-6] ^= 255
    path.write_bytes(packed)
    with pytest.raises(PolyplinkError, match="is damaged"):
        everything(path)
    with pytest.raises(PolyplinkError, match=r"archive .*none\.tar is missing"):
        everything(tmp_path / "none.tar")
