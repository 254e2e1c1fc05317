from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.crops import Unreadable
from polyplink.tracklets.image_folder import ImageFolder, read_image
from tests.tracklets.frames import cut_all, whole_frame
from tests.tracklets.sample import HEIGHT, WIDTH, frame_pixels

NAMES = ("a/0.png", "a/1.tif", "a/2.png")


def test_files_are_cut_and_a_broken_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in NAMES:
        Image.fromarray(frame_pixels(0, 0)[:, :HEIGHT]).save(tmp_path / name)
    (tmp_path / NAMES[2]).write_bytes(b"half")
    frames = [whole_frame(name, k, HEIGHT, HEIGHT) for k, name in enumerate(NAMES)]
    got = cut_all(ImageFolder(tmp_path), frames, HEIGHT)
    assert isinstance(got[2], Unreadable)
    for k in (0, 1):
        np.testing.assert_array_equal(np.asarray(got[k]), frame_pixels(0, 0)[:, :HEIGHT])
    assert not ImageFolder(tmp_path).takes(whole_frame(None, 0, WIDTH, HEIGHT))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("none.jpg", "folder"):
        with pytest.raises(PolyplinkError, match=rf"image .*{name}"):
            read_image(tmp_path / name)
