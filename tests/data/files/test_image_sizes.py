from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.image_sizes import image_sizes
from polyplink.data.files.trees import open_tree


def test_sizes_of_every_kind(tmp_path: Path) -> None:
    picture = Image.fromarray(np.zeros((30, 40, 3), np.uint8))
    for name in ("a.jpg", "b.png", "c.bmp", "d.tif"):
        picture.save(tmp_path / name)
    # A profile as long as this stands before the size in the file.
    picture.save(tmp_path / "e.jpg", icc_profile=bytes(20_000))
    (tmp_path / "f.jpg").write_bytes(b"\xff\xd8 no image")
    tree = open_tree(tmp_path, Faults())
    faults = Faults()
    sizes = image_sizes(tree, tree.members, faults)
    assert {member.name: size for member, size in sizes.items()} == {
        f"{name}": (40, 30) for name in ("a.jpg", "b.png", "c.bmp", "d.tif", "e.jpg")
    }
    assert faults.lines() == ["1 x file that is no image, left out (first: f.jpg)"]
    with pytest.raises(PolyplinkError, match=r"f\.jpg: file that is no image; restore it"):
        image_sizes(tree, tree.members, Faults(strict=True))
