"""The public sets: reader, writer, and a small data set for each layout."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np

from polyplink.data.files.images import encode_jpeg
from polyplink.data.sets.ldpolyp import import_ldpolyp, write_ldpolyp
from polyplink.data.sets.polyp_size import import_polyp_size, write_polyp_size
from polyplink.data.sets.polypsset import import_polypsset, write_polypsset
from polyplink.data.sets.real_colon import (
    frame_stem,
    frames_folder,
    import_real_colon,
    write_real_colon,
)
from polyplink.data.sets.sun import import_sun, write_sun
from polyplink.data.tables import TABLES, DataSet, Imported
from tests.data.packing import files_of, pack
from tests.data.sample_sets import data_set, procedure_row, unlabelled_row


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


def write_grey(path: Path, height: int, width: int) -> None:
    """Write a grey JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_jpeg(np.full((height, width, 3), 99, np.uint8)))


def write_set(name: str, data: DataSet, root: Path) -> None:
    """Write a data set in the layout of a public set, with an image of every frame."""
    SETS[name].write(data, root)
    for row in data.procedures.iter_rows(named=True):
        procedure, size = row["procedure_id"], (row["height"], row["width"])
        part, _, folder = procedure.partition("_")
        if name == "polyp-size":
            write_grey_video(root / f"Video{procedure}.mp4", row["n_frames"], *size)
            continue
        for image in images_of(name, procedure, part, folder, row["n_frames"], root):
            write_grey(image, *size)


def images_of(
    name: str, procedure: str, part: str, folder: str, n_frames: int, root: Path
) -> list[Path]:
    """The images of a procedure in a written layout: `folder` of `part`, if it is so named."""
    if name == "real-colon":
        stems = (frame_stem(procedure, frame) for frame in range(n_frames))
        return [root / frames_folder(procedure) / f"{stem}.jpg" for stem in stems]
    if name == "ldpolyp":
        texts = (root / part / "Annotations" / folder).iterdir()
        return [root / part / "Images" / folder / f"{text.stem}.jpg" for text in texts]
    if name == "polypsset":
        below, inner = root / f"{part}2019", "" if part == "train" else folder
        xmls = (below / "Annotation" / inner).glob("*.xml")
        return [below / "Image" / inner / f"{xml.stem}.jpg" for xml in xmls]
    if procedure.startswith("negative"):
        names = [f"case_M_1_a1_ayy_image{frame + 1:04d}.jpg" for frame in range(n_frames)]
        number = procedure.removeprefix("negative")
        return [root / "sundatabase_negative_part1" / f"case{number}" / stem for stem in names]
    text = root / "sundatabase_positive_part1" / "annotation_txt" / f"{procedure}.txt"
    lines = text.read_text().split("\n") if text.is_file() else []
    return [text.parents[1] / procedure / line.split()[0] for line in lines if line]


def write_grey_video(path: Path, n_frames: int, height: int, width: int) -> None:
    """Write a grey MPEG-4 video of 30 frames per second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        pixels = np.full((height, width, 3), 99, np.uint8)
        for _ in range(n_frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


@cache
def small_files(name: str) -> dict[str, bytes]:
    """The files of the small data set of a layout, with images."""
    with TemporaryDirectory() as folder:
        write_set(name, SETS[name].small(), Path(folder))
        return files_of(Path(folder))


def write_small(name: str, root: Path) -> DataSet:
    """Write the small data set of a layout with images."""
    pack(root, small_files(name))
    return SETS[name].small()
