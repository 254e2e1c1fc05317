from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.write_polypsset import write_polypsset
from tests.data.made_sets import data_set, procedure_row, small_set


def test_files_are_as_odd_as_the_release(tmp_path: Path) -> None:
    polyps = [("val_7", "val_7", None, None, "adenomatous", "adenomatous")]
    data = data_set(
        [("val_7", 1, 1, 2, 3, 4, "val_7")],
        polyps,
        [procedure_row("val_7", 2, dataset="polypsset")],
    )
    write_polypsset(data, tmp_path, frames=lambda *_: np.zeros((48, 64, 3), np.uint8), odd=True)
    names = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*"))
    assert names == [
        "val2019/Annotation/7/0.xml",
        "val2019/Annotation/7/1.xml",
        "val2019/Annotation/7/9.xml",
        "val2019/Image/7/0.jpg",
        "val2019/Image/7/1.jpg",
    ]
    text = (tmp_path / "val2019/Annotation/7/1.xml").read_text()
    assert "<xmin> 1 </xmin>" in text
    assert "<filename>1.png</filename>" in text
    assert "<width>65</width>" in text


def test_what_the_layout_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="'001-001' is in no part of PolypsSet; name it val_"):
        write_polypsset(small_set(), tmp_path)
    data = data_set([("train_8x8", 1, 1, 2, 3, 4, None)], [], [procedure_row("train_8x8", 3)])
    with pytest.raises(PolyplinkError, match="a box in frame 1 of training; number its images 0"):
        write_polypsset(data, tmp_path)
