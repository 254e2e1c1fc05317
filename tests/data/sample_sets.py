"""Small data sets for the tests of `data`: some by hand, and random ones for any layout."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl
from hypothesis import strategies as st

from polyplink.core.parts import FORMATS
from polyplink.data.protocols import split_by_rule
from polyplink.data.tables import DataSet, Imported

WIDTH, HEIGHT = 64, 48

BOX_IMPORTERS: dict[str, Callable[..., Imported]] = {
    name: form.read
    for name, form in FORMATS.items()
    if form.write and form.read.__module__.startswith("polyplink.data.formats.")
}
"""Importers of the general formats that are also written; new formats join by themselves."""

BOX = ("procedure_id", "frame", "x", "y", "w", "h", "polyp_id")
POLYP = ("polyp_id", "procedure_id", "size_mm", "location", "histology", "histology_class")
Rows = list[tuple[Any, ...]]


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


def unlabelled_row(
    procedure_id: str, n_frames: int, dataset: str, **changes: Any
) -> dict[str, Any]:
    """A row of the table procedures with only the size and number of frames known."""
    unknown = {"age": None, "sex": None, "brand": None, "bbps": None, "fps": None}
    return procedure_row(procedure_id, n_frames, dataset=dataset, **(unknown | changes))


def _table(rows: Rows, columns: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=list(columns), orient="row", infer_schema_length=None)


def data_set(
    boxes: Rows,
    polyps: Rows,
    procedures: list[dict[str, Any]],
    splits: Mapping[str, list[str]] | None = None,
) -> DataSet:
    """A data set of rows; boxes and polyps have the columns `BOX` and `POLYP`."""
    tables = _table(boxes, BOX), pl.DataFrame(procedures), _table(polyps, POLYP)
    return DataSet.of(*tables, splits)


@cache
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


@cache
def scored_set(dataset: str = "x") -> DataSet:
    """Two procedures with scores: two polyps, a box without polyp, frames without a box."""
    rows = [
        ("001-001", 0, 10.5, 8, 20, 16, 0.5, "001-001_1"),
        ("001-001", 1, 11, 8.25, 20, 16, 0.75, "001-001_1"),
        ("001-001", 1, 40, 30, 10, 10, None, "001-001_2"),
        ("001-009", 2, 5, 5, 9, 9, 0.25, None),
    ]
    procedures = [procedure_row(n, k, dataset=dataset) for n, k in (("001-001", 6), ("001-009", 4))]
    polyps = [("001-001_1", "001-001", 3.0), ("001-001_2", "001-001", None)]
    return DataSet.of(
        pl.DataFrame(rows, schema=[*BOX[:6], "score", "polyp_id"], orient="row"),
        pl.DataFrame(procedures),
        pl.DataFrame(polyps, schema=list(POLYP[:3]), orient="row"),
    )


def finite_floats(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32, allow_nan=False)


@st.composite
def integer_boxes(draw: st.DrawFn, width: int, height: int) -> tuple[int, int, int, int]:
    """x, y, w, h in whole pixels, inside an image."""
    x, y = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    return x, y, draw(st.integers(1, width - x)), draw(st.integers(1, height - y))


NONE: st.SearchStrategy[None] = st.none()
UNKNOWN = st.just((None,) * 5)


@st.composite
def random_sets(
    draw: st.DrawFn,
    dataset: str,
    order: Sequence[str],
    size: st.SearchStrategy[tuple[int, int]],
    box: Callable[[int, int], st.SearchStrategy[tuple[float, float, float, float]]],
    polyps_of: Callable[[str, bool], st.SearchStrategy[list[str]]],
    *,
    unnamed: bool = False,
    facts: Mapping[str, st.SearchStrategy[Any]] | None = None,
    scores: st.SearchStrategy[float | None] = NONE,
    polyp: st.SearchStrategy[tuple[Any, ...]] = UNKNOWN,
    splits: Callable[[list[str], set[str]], Mapping[str, list[str]]] = lambda names, owners: {},
) -> DataSet:
    """One to three random procedures that a layout or format can hold without loss.

    Args:
        draw: Draw function of hypothesis.
        dataset: Name of the data set.
        order: Names of procedures, in the order of an import.
        size: Width and height of a procedure's frames.
        box: Returns x, y, w, h of a box in frames of a width and a height.
        polyps_of: Returns a procedure's polyps, from its name and whether it has boxes.
        unnamed: Whether boxes may lack a polyp.
        facts: Other columns of a procedure.
        scores: Scores of boxes.
        polyp: size_mm, location, histology, histology_class and morphology of a polyp.
        splits: Returns the parts, from all names and from the names with polyps.
    """
    names = st.lists(st.sampled_from(order), min_size=1, max_size=3, unique=True)
    boxes: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # without repeated ones, also if rounded
    polyps: Rows = []
    procedures = []
    for name in sorted(draw(names), key=order.index):
        frames = draw(st.lists(st.integers(0, 5), max_size=5))
        width, height = draw(size)
        columns = draw(st.fixed_dictionaries(dict(facts or {})))
        columns |= {"width": width, "height": height}
        n_frames = max([0, *frames]) + 1 + draw(st.integers(0, 2))
        procedures.append(unlabelled_row(name, n_frames, dataset, **columns))
        ids = draw(polyps_of(name, bool(frames)))
        owner = st.sampled_from([*ids, None] if unnamed else ids)
        for frame in frames:
            sides, rest = draw(box(width, height)), (draw(owner), draw(scores))
            boxes.setdefault((name, frame, *map(round, sides), *rest), (name, frame, *sides, *rest))
        polyps += [(polyp_id, name, *draw(polyp)) for polyp_id in ids]
    parts = splits([p["procedure_id"] for p in procedures], {row[1] for row in polyps})
    tables = (
        _table([*boxes.values()], (*BOX, "score")),
        pl.DataFrame(procedures, infer_schema_length=None),
    )
    return DataSet.of(*tables, _table(polyps, (*POLYP, "morphology")), parts)


_words = st.text("abc<&>\"',; éß", min_size=1, max_size=6).filter(lambda s: s == s.strip())
_ends = st.lists(_words | st.sampled_from("12"), min_size=1, max_size=2, unique=True)
_facts = {
    "age": st.none() | st.integers(18, 99),
    "sex": st.none() | _words,
    "brand": st.none() | _words,
    "fps": st.none() | finite_floats(1, 120),
    "bbps": st.none() | finite_floats(0, 9),
}
_polyp = (
    st.none() | finite_floats(0.5, 40),
    st.sampled_from([None, "cecum", "sigma"]),
    *[st.none() | _words] * 2,
)


def data_sets() -> st.SearchStrategy[DataSet]:
    """Random data sets that the layout of REAL-Colon can hold without loss."""
    return random_sets(
        "real-colon",
        ("001-001", "001-012", "002-009", "003-010"),
        st.tuples(st.integers(3, 2000), st.integers(3, 2000)),
        lambda width, height: integer_boxes(width - 1, height - 1),
        lambda name, _: st.integers(0, 3).map(lambda n: [f"{name}_{k + 1}" for k in range(n)]),
        unnamed=True,
        facts=_facts,
        polyp=st.tuples(*_polyp, st.none()),
        splits=split_by_rule,
    )


def box_sets(*, scores: bool = True) -> st.SearchStrategy[DataSet]:
    """Random data sets for the box formats: any float32 box, scores, polyps with unusual names."""
    return random_sets(
        "one set",
        ("001-001", "case 7", "a_b_3", "dataset0_é"),
        st.tuples(st.integers(70, 2000), st.integers(50, 2000)),
        lambda width, height: st.tuples(
            finite_floats(0, 40), finite_floats(0, 30), *[finite_floats(0.0625, 20)] * 2
        ),
        lambda name, _: _ends.map(lambda ends: [f"{name}_{end}" for end in ends]),
        unnamed=True,
        facts=_facts | {"patient": st.sampled_from("pq")},
        scores=st.none() | finite_floats(0, 1) if scores else NONE,
        polyp=st.tuples(*_polyp, st.sampled_from([None, "Is", "IIa"])),
    )
