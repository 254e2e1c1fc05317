"""The public sets: reader, writer, and a small data set for each layout."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyplink.data.sets.ldpolyp import import_ldpolyp, write_ldpolyp
from polyplink.data.sets.polyp_size import import_polyp_size, write_polyp_size
from polyplink.data.sets.polypsset import import_polypsset, write_polypsset
from polyplink.data.sets.real_colon import import_real_colon, write_real_colon
from polyplink.data.sets.sun import import_sun, write_sun
from polyplink.data.tables import TABLES, DataSet, Imported
from tests.data.packing import files_of, pack
from tests.data.sample_sets import data_set, procedure_row, unlabelled_row


def picture(data: DataSet) -> Callable[[str, int], NDArray[np.uint8]]:
    """An image function: grey images of each procedure's size."""
    rows = data.procedures.select("procedure_id", "height", "width").iter_rows()
    sizes = {procedure_id: (height, width) for procedure_id, height, width in rows}

    def frame(procedure_id: str, number: int) -> NDArray[np.uint8]:
        return np.full((*sizes[procedure_id], 3), number % 256, dtype=np.uint8)

    return frame


def assert_same(after: DataSet, before: DataSet) -> None:
    """Check that two data sets are equal, except for the folder and the images of boxes."""
    for name in TABLES:
        drop = ("source", "image")
        old, new = (getattr(d, name).drop(drop, strict=False) for d in (before, after))
        assert new.equals(old), f"{name}: {new} is not {old}"
    assert after.splits == before.splits


@cache
def small_real_colon() -> DataSet:
    """Two procedures with one polyp each."""
    boxes = [("001-001", f, 8 + f, 8, 20, 16, "001-001_1") for f in (0, 1)]
    boxes += [("001-002", 2, 8, 8, 20, 16, "001-002_1")]
    polyps = [(f"{n}_1", n, 4.0, "cecum", "adenoma", "AD") for n in ("001-001", "001-002")]
    rows = [procedure_row("001-001", 3), procedure_row("001-002", 4)]
    return data_set(boxes, polyps, rows, {"train": ["001-001", "001-002"]})


@cache
def small_ldpolyp() -> DataSet:
    """Two training videos, the second with two polyps, and a test video without polyps."""
    rows = [unlabelled_row(n, 4, "ldpolyp", width=560, height=480)
            for n in ("TrainValid_2", "TrainValid_10", "Test_101")]  # fmt: skip
    boxes = [
        ("TrainValid_2", 0, 10, 20, 30, 40, "TrainValid_2"),
        ("TrainValid_2", 3, 12, 20, 30, 40, "TrainValid_2"),
        ("TrainValid_10", 1, 1, 2, 3, 4, "TrainValid_10"),
        ("TrainValid_10", 2, 1, 2, 3, 4, "TrainValid_10"),
        ("TrainValid_10", 2, 100, 200, 30, 40, "TrainValid_10"),
    ]
    polyps = [(n, n, None, None, None, None) for n in ("TrainValid_2", "TrainValid_10")]
    splits = {"train": ["TrainValid_2", "TrainValid_10"], "test": ["Test_101"]}
    return data_set(boxes, polyps, rows, splits)


@cache
def small_sun() -> DataSet:
    """Two cases, the first in two segments, and a video without a polyp."""
    row = {"width": 60, "height": 50, "fps": 30.0}
    procedures = [
        unlabelled_row("case2", 5, "sun", **row),
        unlabelled_row("case10", 1, "sun", **row, patient="p"),
        unlabelled_row("negative2", 2, "sun", **row),
    ]
    boxes = [("case2", f, 1 + f, 2, 10, 12, "case2") for f in (0, 1, 3, 4)]
    boxes += [("case10", 0, 5, 6, 7, 8, "case10"), ("case10", 0, 20, 6, 7, 8, "case10")]
    polyps = [
        ("case2", "case2", 15.0, "cecum", "SSL", "SSL"),
        ("case10", "case10", None, None, None, None),
    ]
    parts = {"positive": ["case2", "case10"], "negative": ["negative2"]}
    return data_set(boxes, polyps, procedures, parts)


@cache
def small_polypsset() -> DataSet:
    """Three training images and two videos."""
    procedures = [
        unlabelled_row("train_64x48", 5, "polypsset", patient="train"),
        unlabelled_row("val_10", 4, "polypsset"),
        unlabelled_row("test_10", 3, "polypsset"),
    ]
    boxes = [
        ("train_64x48", 0, 1, 2, 10, 12, None),
        ("train_64x48", 2, 1, 2, 10, 12, None),
        ("val_10", 1, 5, 6, 7, 8, "val_10"),
        ("val_10", 3, 5, 6, 9, 8, "val_10"),
        ("test_10", 0, 0, 0, 64, 48, "test_10"),
    ]
    polyps = [
        ("val_10", "val_10", None, None, "adenomatous", "adenomatous"),
        ("test_10", "test_10", None, None, "hyperplastic", "hyperplastic"),
    ]
    parts = {"train": ["train_64x48"], "val": ["val_10"], "test": ["test_10"]}
    return data_set(boxes, polyps, procedures, parts)


@cache
def small_polyp_size() -> DataSet:
    """Two videos of four frames."""
    facts = {"fps": 30.0, "age": 60, "brand": 'CF-HQ290I, "new"'}
    procedures = [unlabelled_row(n, 4, "polyp-size", **facts) for n in ("01", "07")]
    boxes = [
        ("01", 0, 1, 2, 3, 4, "01"),
        ("01", 2, 1.5, 2, 3, 4.25, "01"),
        ("07", 3, 1, 1, 9, 9, "07"),
    ]
    word = "Tubulovillous Adenoma"
    polyps = [("01", "01", 5.01, None, word, word), ("07", "07", 2.8, None, None, None)]
    return data_set(boxes, polyps, procedures)


@dataclass(frozen=True)
class PublicSet:
    """Writer and reader of a set, and a small data set for its layout."""

    write: Callable[..., None]
    read: Callable[..., Imported]
    small: Callable[[], DataSet]


def _read_sun(root: Path, **options: Any) -> Imported:
    cases = root / "cases.csv"
    return import_sun(root, cases=cases if cases.is_file() else None, **options)


def _read_polyp_size(root: Path, **options: Any) -> Imported:
    boxes = root / "boxes.csv"
    return import_polyp_size(root, boxes=boxes if boxes.is_file() else None, **options)


SETS = {
    "real-colon": PublicSet(write_real_colon, import_real_colon, small_real_colon),
    "ldpolyp": PublicSet(write_ldpolyp, import_ldpolyp, small_ldpolyp),
    "sun": PublicSet(write_sun, _read_sun, small_sun),
    "polypsset": PublicSet(write_polypsset, import_polypsset, small_polypsset),
    "polyp-size": PublicSet(write_polyp_size, _read_polyp_size, small_polyp_size),
}


@cache
def small_files(name: str) -> dict[str, bytes]:
    """The files of the small data set of a layout, with images."""
    data = SETS[name].small()
    with TemporaryDirectory() as folder:
        SETS[name].write(data, Path(folder), frames=picture(data))
        return files_of(Path(folder))


def write_small(name: str, root: Path) -> DataSet:
    """Write the small data set of a layout with images."""
    pack(root, small_files(name))
    return SETS[name].small()
