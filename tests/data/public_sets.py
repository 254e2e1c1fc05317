"""Random data sets that the layouts of the public polyp sets can hold, and tiny images."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st
from numpy.typing import NDArray

from polyplink.data import TABLES, DataSet
from tests.data.made_sets import data_set, procedure_row

Box = tuple[int, int, int, int]  # x, y, w, h


def picture(data: DataSet) -> Callable[[str, int], NDArray[np.uint8]]:
    """An image function: grey images of each procedure's size."""
    rows = data.procedures.select("procedure_id", "height", "width").iter_rows()
    sizes = {procedure_id: (height, width) for procedure_id, height, width in rows}

    def frame(procedure_id: str, number: int) -> NDArray[np.uint8]:
        return np.full((*sizes[procedure_id], 3), number % 256, dtype=np.uint8)

    return frame


@st.composite
def whole_boxes(draw: st.DrawFn, width: int, height: int) -> Box:
    """A box of whole pixels inside an image."""
    x, y = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    return x, y, draw(st.integers(1, width - x)), draw(st.integers(1, height - y))


def unlabelled_row(
    procedure_id: str, n_frames: int, dataset: str, **changes: Any
) -> dict[str, Any]:
    """A procedure of which nothing but its frames is known."""
    nothing = {"age": None, "sex": None, "brand": None, "bbps": None, "fps": None}
    return procedure_row(procedure_id, n_frames, dataset=dataset, **(nothing | changes))


@st.composite
def ldpolyp_sets(draw: st.DrawFn) -> DataSet:
    """One polyp for each procedure that has a box; boxes in any frame, several in some."""
    order = ["TrainValid_1", "TrainValid_2", "TrainValid_10", "Test_2", "Test_101"]
    names = draw(st.lists(st.sampled_from(order), min_size=1, unique=True))
    boxes, polyps, procedures = [], [], []
    splits: dict[str, list[str]] = {}
    for name in sorted(names, key=order.index):
        n_frames = draw(st.integers(1, 5))
        frames = draw(st.lists(st.integers(0, n_frames - 1), max_size=4))
        boxes += [(name, frame, *draw(whole_boxes(560, 480)), name) for frame in frames]
        polyps += [(name, name, None, None, None, None)] if frames else []
        procedures.append(unlabelled_row(name, n_frames, "ldpolyp", width=560, height=480))
        part = "train" if name.startswith("TrainValid") else "test"
        splits.setdefault(part, []).append(name)
    return data_set(boxes, polyps, procedures, splits)


_PATHOLOGY = ["Low-grade adenoma", "SSL", "Invasive cancer (T1b)", "Hyperplastic polyp"]


@st.composite
def sun_sets(draw: st.DrawFn) -> DataSet:
    """Cases of one polyp with a box in their last frame; every image number restarts at gaps."""
    boxes, polyps, procedures = [], [], []
    numbers = draw(st.lists(st.sampled_from([1, 2, 10, 100]), min_size=1, unique=True))
    for name in (f"case{number}" for number in sorted(numbers)):
        # A segment is cut off by one frame number; further ones are a later first number.
        frames = draw(st.lists(st.integers(0, 30), min_size=1, max_size=6))
        boxes += [(name, frame, *draw(whole_boxes(1240, 1080)), name) for frame in frames]
        size = draw(st.none() | st.sampled_from([2.0, 3.5, 15.0]))
        site = draw(st.none() | st.sampled_from(["cecum", "sigma", "ascending"]))
        word = draw(st.none() | st.sampled_from(_PATHOLOGY))
        polyps.append((name, name, size, site, word, word))
        patient = draw(st.sampled_from([name, "shared"]))
        row = {"width": 1240, "height": 1080, "fps": 30.0, "patient": patient}
        procedures.append(unlabelled_row(name, max(frames) + 1, "sun", **row))
    splits = {"positive": [row["procedure_id"] for row in procedures]}
    data = data_set(boxes, polyps, procedures, splits)
    shapes = draw(st.lists(st.sampled_from(["Is", "IIa(LST-NG)", None]),
                           min_size=len(polyps), max_size=len(polyps)))  # fmt: skip
    table = data.polyps.with_columns(pl.Series("morphology", shapes, dtype=pl.String))
    return DataSet.of(data.detections, data.procedures, table, splits)


@st.composite
def polypsset_sets(draw: st.DrawFn) -> DataSet:
    """Videos of one polyp in val and test, and shuffled images of training in two sizes."""
    order = ["train_20x30", "train_64x48", "val_1", "val_2", "val_10", "test_1", "test_10"]
    names = draw(st.lists(st.sampled_from(order), min_size=1, unique=True))
    boxes, polyps, procedures = [], [], []
    splits: dict[str, list[str]] = {}
    for name in sorted(names, key=order.index):
        training = name.startswith("train")
        width, height = (20, 30) if name == "train_20x30" else (64, 48)
        step, n_frames = (2 if training else 1), draw(st.integers(1, 4))
        frames = draw(st.lists(st.integers(0, n_frames - 1), max_size=4))
        owner = None if training else name
        boxes += [(name, f * step, *draw(whole_boxes(width, height)), owner) for f in frames]
        if frames and not training:
            word = draw(st.sampled_from(["adenomatous", "hyperplastic"]))
            polyps.append((name, name, None, None, word, word))
        row = {"width": width, "height": height, "patient": "train" if training else name}
        procedures.append(unlabelled_row(name, (n_frames - 1) * step + 1, "polypsset", **row))
        splits.setdefault(name.split("_")[0], []).append(name)
    return data_set(boxes, polyps, procedures, splits)


_POLYP_SIZE_WORDS = ["Tubular Adenoma", "Hyperplastic Polyp", "Pathology Not Available"]


@st.composite
def polyp_size_sets(draw: st.DrawFn) -> DataSet:
    """One or two videos of one polyp, with boxes of any decimals."""
    names = draw(st.lists(st.sampled_from(["01", "07", "42"]), min_size=1, max_size=2, unique=True))
    boxes, polyps, procedures, shapes = [], [], [], []
    for name in sorted(names):
        n_frames = draw(st.integers(1, 3))
        side = st.integers(1, 40).map(lambda v: v / 8)
        for frame in draw(st.lists(st.integers(0, n_frames - 1), max_size=3)):
            boxes.append((name, frame, *(draw(side) for _ in range(4)), name))
        size = draw(st.none() | st.sampled_from([2.8, 5.01, 11.74]))
        word = draw(st.none() | st.sampled_from(_POLYP_SIZE_WORDS))
        polyps.append((name, name, size, None, word, word))
        shapes.append(draw(st.sampled_from(["Is", 'II"a', None])))
        row = {
            "age": draw(st.none() | st.integers(18, 90)),
            "sex": draw(st.sampled_from(["M", None])),
            "brand": draw(st.sampled_from(["CF-HQ290I, new", None])),
            "fps": 30.0,
        }
        procedures.append(unlabelled_row(name, n_frames, "polyp-size", **row))
    data = data_set(boxes, polyps, procedures, {})
    table = data.polyps.with_columns(pl.Series("morphology", shapes, dtype=pl.String))
    return DataSet.of(data.detections, data.procedures, table, {})


def assert_same(after: DataSet, before: DataSet) -> None:
    """Equal in all but where the files lie, images included only where both have them."""
    for name in TABLES:
        drop = ("source", "image")
        old, new = (getattr(d, name).drop(drop, strict=False) for d in (before, after))
        assert new.equals(old), f"{name}: {new} is not {old}"
    assert after.splits == before.splits
