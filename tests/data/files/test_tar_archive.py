import io
import tarfile
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.tar_archive import TarArchive


def write(path: Path, mode: str) -> Path:
    with tarfile.open(path, mode) as packed:  # type: ignore[call-overload]
        for name, data in (("b.txt", b"second"), ("c.jpg", b"picture"), ("a.txt", b"first")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
        packed.addfile(link)
    return path


@pytest.mark.parametrize(("name", "mode"), [("x.tar", "w"), ("x.tar.gz", "w:gz")])
def test_members(tmp_path: Path, name: str, mode: str) -> None:
    archive = TarArchive(write(tmp_path / name, mode))
    assert archive.names() == ["b.txt", "c.jpg", "a.txt"]
    assert dict(archive.read(["a.txt", "c.jpg"], None)) == {"a.txt": b"first", "c.jpg": b"picture"}
    assert dict(archive.read(["a.txt", "c.jpg"], 3)) == {"a.txt": b"fir", "c.jpg": b"pic"}


def test_texts_of_a_compressed_archive_need_no_second_pass(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar.gz", "w:gz")
    archive = TarArchive(path)
    path.unlink()
    assert list(archive.read(["b.txt"], None)) == [("b.txt", b"second")]
    with pytest.raises(PolyplinkError, match=r"x\.tar\.gz: No such file"):
        list(archive.read(["c.jpg"], None))


def test_a_broken_header_in_the_middle_is_no_end(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar", "w")
    data = bytearray(path.read_bytes())
    data[1024:1030] = b"\x07" * 6  # the name of the second member: its checksum is wrong now
    path.write_bytes(data)
    with pytest.raises(PolyplinkError, match=r"x\.tar is cut short or damaged; download it again"):
        TarArchive(path)
