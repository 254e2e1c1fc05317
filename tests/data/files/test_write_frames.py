from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.write_frames import whole_edges, write_image
from tests.data.made_sets import data_set, procedure_row, small_set


def test_image_is_a_jpeg_of_its_size(tmp_path: Path) -> None:
    pixels = np.full((20, 30, 3), 90, np.uint8)
    write_image(tmp_path / "a" / "1.jpg", pixels)
    back = simplejpeg.decode_jpeg((tmp_path / "a" / "1.jpg").read_bytes())
    assert back.shape == (20, 30, 3)
    assert np.abs(back.astype(int) - 90).max() <= 3


def test_edges_of_whole_pixels() -> None:
    assert whole_edges(small_set(), "it")["001-001"] == {
        0: [(10, 8, 30, 24)],
        1: [(11, 8, 31, 24), (40, 30, 50, 40)],
    }
    data = data_set([("a", 0, 1, 2, 3.5, 4, None)], [], [procedure_row("a", 1)])
    with pytest.raises(PolyplinkError, match=r"a, frame 0: box \(1, 2, 3\.5, 4\) is not of whole"):
        whole_edges(data, "it")
