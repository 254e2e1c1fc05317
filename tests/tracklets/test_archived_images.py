import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.archived_images import ArchivedImages
from polyplink.tracklets.crops import Unreadable
from tests.tracklets.frames import cut_all, whole_frame
from tests.tracklets.sample import HEIGHT, frame_pixels


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame_pixels(0, number)[:, :HEIGHT]).save(buffer, "png")
    return buffer.getvalue()


def write(path: Path, members: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, data in members.items():
                zipped.writestr(name, data)
        return path
    with tarfile.open(path, "w:" if path.suffix == ".tar" else "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tgz"])
@pytest.mark.parametrize("prefix", ["", "p_frames/"])
def test_members_equal_the_images_packed(tmp_path: Path, kind: str, prefix: str) -> None:
    members = {f"p_frames/{k}.png": png(k) for k in (2, 0, 1, 3)}
    members["p_frames/1.png"] = b"half"
    write(tmp_path / f"p.{kind}", members)
    frames = [whole_frame(f"p.{kind}!/{prefix}{k}.png", k, HEIGHT, HEIGHT) for k in (0, 1, 2, 9)]
    got = cut_all(ArchivedImages(tmp_path), frames, HEIGHT)
    for k in (0, 2):
        np.testing.assert_array_equal(np.asarray(got[k]), frame_pixels(0, k)[:, :HEIGHT])
    assert isinstance(got[1], Unreadable)
    assert got[9] == Unreadable("not in the archive")


def test_what_it_takes() -> None:
    source = ArchivedImages(Path())
    assert source.takes(whole_frame("d/a.tar.gz!/x.jpg", 0, 1, 1))
    assert not source.takes(whole_frame("d/a.jpg", 0, 1, 1))
    assert not source.takes(whole_frame("d!/a.jpg", 0, 1, 1))
    assert not source.takes(whole_frame(None, 0, 1, 1))


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"p.{kind}", {"0.png": png(0), "1.png": png(1)})
    source = ArchivedImages(tmp_path)
    with pytest.raises(PolyplinkError, match=r"has no member other\.png; give the archive"):
        cut_all(source, [whole_frame(f"p.{kind}!/other.png", 0, HEIGHT, HEIGHT)])
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(PolyplinkError, match="download it again"):
        cut_all(source, [whole_frame(f"p.{kind}!/0.png", 0, HEIGHT, HEIGHT)])
    path.unlink()
    with pytest.raises(PolyplinkError, match="is missing; restore it"):
        cut_all(source, [whole_frame(f"p.{kind}!/0.png", 0, HEIGHT, HEIGHT)])


def test_a_damaged_member_of_a_zip_is_unreadable(tmp_path: Path) -> None:
    path = write(tmp_path / "p.zip", {"0.png": png(0), "1.png": png(1)})
    data = bytearray(path.read_bytes())
    data[60] ^= 255
    path.write_bytes(data)
    frames = [whole_frame(f"p.zip!/{k}.png", k, HEIGHT, HEIGHT) for k in (0, 1)]
    got = cut_all(ArchivedImages(tmp_path), frames, HEIGHT)
    assert isinstance(got[0], Unreadable)
    assert not isinstance(got[1], Unreadable)
