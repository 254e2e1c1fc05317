"""Small data sets for the tests of this room: one by hand, and random ones."""

from typing import Any

import polars as pl
from hypothesis import strategies as st

from polyplink.data import DataSet, split_by_rule

WIDTH, HEIGHT = 64, 48

_BOX = ("procedure_id", "frame", "x", "y", "w", "h", "polyp_id")
_POLYP = ("polyp_id", "procedure_id", "size_mm", "location", "histology", "histology_class")


def procedure_row(procedure_id: str, n_frames: int = 6, **changes: Any) -> dict[str, Any]:
    """One row of the table procedures."""
    row = {
        "procedure_id": procedure_id,
        "dataset": "real-colon",
        "patient": procedure_id,
        "n_frames": n_frames,
        "fps": 25.0,
        "width": WIDTH,
        "height": HEIGHT,
        "source": "/nowhere",
        "age": 60,
        "sex": "male",
        "brand": "Olympus",
        "bbps": 7.5,
    }
    return row | changes


def data_set(
    boxes: list[tuple[Any, ...]],
    polyps: list[tuple[Any, ...]],
    procedures: list[dict[str, Any]],
    splits: dict[str, list[str]] | None = None,
) -> DataSet:
    """Join rows to a data set; boxes and polyps in the columns `_BOX` and `_POLYP`."""
    return DataSet.of(
        pl.DataFrame([dict(zip(_BOX, row, strict=True)) for row in boxes], schema=list(_BOX))
        if boxes
        else pl.DataFrame(schema=list(_BOX)),
        pl.DataFrame(procedures),
        pl.DataFrame(
            [dict(zip(_POLYP, row, strict=True)) for row in polyps],
            schema=dict(
                zip(_POLYP, (pl.String, pl.String, pl.Float64, *[pl.String] * 3), strict=True)
            ),
        ),
        splits,
    )


def small_set() -> DataSet:
    """Three procedures: two polyps, one polyp, none."""
    return data_set(
        [
            ("001-001", 0, 10, 8, 20, 16, "001-001_1"),
            ("001-001", 1, 11, 8, 20, 16, "001-001_1"),
            ("001-001", 1, 40, 30, 10, 10, "001-001_2"),
            ("001-009", 2, 5, 5, 9, 9, "001-009_1"),
        ],
        [
            ("001-001_2", "001-001", 6.0, "cecum", "adenoma", "AD"),
            ("001-001_1", "001-001", 2.0, "transverse", "HP", "HP"),
            ("001-009_1", "001-009", 5.0, None, "not-polyp", "NO POLYP"),
        ],
        [
            procedure_row("001-001"),
            procedure_row("001-009", 4, sex="female", fps=29.97, bbps=9.0, age=None),
            procedure_row("001-010", 3),
        ],
        {"train": ["001-001"], "eval": ["001-009"], "negative": ["001-010"]},
    )


@st.composite
def _rows(draw: st.DrawFn, procedure: dict[str, Any], ids: list[str]) -> list[tuple[Any, ...]]:
    """Boxes of one procedure: whole numbers, inside the image, now and then without a polyp."""
    rows = []
    for frame in draw(st.lists(st.integers(0, procedure["n_frames"] - 1), max_size=5)):
        x = draw(st.integers(0, procedure["width"] - 2))
        y = draw(st.integers(0, procedure["height"] - 2))
        w = draw(st.integers(1, procedure["width"] - 1 - x))
        h = draw(st.integers(1, procedure["height"] - 1 - y))
        polyp_id = draw(st.sampled_from([*ids, None]))
        rows.append((procedure["procedure_id"], frame, x, y, w, h, polyp_id))
    return rows


_words = st.text("abc<&>\"', é", min_size=1, max_size=6).filter(lambda s: s == s.strip())
_plain_words = st.sampled_from(["cecum", "sigma", "hepatic_flexure"])


@st.composite
def data_sets(draw: st.DrawFn) -> DataSet:
    """Random data sets that the layout of REAL-Colon can hold without loss."""
    names = draw(
        st.lists(st.sampled_from(["001-001", "001-012", "002-009", "003-010"]), min_size=1,
                 max_size=3, unique=True)
    )  # fmt: skip
    boxes, polyps, procedures = [], [], []
    for name in names:
        procedure = procedure_row(
            name,
            draw(st.integers(1, 6)),
            width=draw(st.integers(3, 2000)),
            height=draw(st.integers(3, 2000)),
            age=draw(st.none() | st.integers(18, 99)),
            sex=draw(st.none() | _words),
            fps=draw(st.none() | st.floats(1, 120, width=32)),
            bbps=draw(st.none() | st.floats(0, 9, width=32)),
        )
        ids = [f"{name}_{k}" for k in range(1, 1 + draw(st.integers(0, 3)))]
        for polyp_id in ids:
            size = draw(st.none() | st.floats(0.5, 40, width=32))
            site = draw(st.none() | _plain_words)
            words = draw(st.tuples(st.none() | _words, st.none() | _words))
            polyps.append((polyp_id, name, size, site, *words))
        boxes += draw(_rows(procedure, ids))
        procedures.append(procedure)
    splits = split_by_rule(pl.Series(names), {owner for _, owner, *_ in polyps})
    return data_set(boxes, polyps, procedures, splits)
