"""Random data sets for the general formats: any float32 box, scores, polyps with odd names."""

from typing import Any

import polars as pl
from hypothesis import strategies as st

from polyplink.data import DataSet
from tests.data.made_sets import procedure_row

BOX = ("procedure_id", "frame", "x", "y", "w", "h", "score", "polyp_id", "image")
_words = st.text("abc<&>\"',; éß", min_size=1, max_size=6).filter(lambda s: s == s.strip())


def real(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32, allow_nan=False)


@st.composite
def _boxes(
    draw: st.DrawFn, procedure: dict[str, Any], ids: list[str], scores: bool
) -> list[tuple[Any, ...]]:
    rows = []
    for frame in draw(st.lists(st.integers(0, procedure["n_frames"] - 1), max_size=6)):
        x, y = draw(real(0, 40)), draw(real(0, 30))
        w, h = draw(real(0.0625, 20)), draw(real(0.0625, 20))
        score = draw(st.none() | real(0, 1)) if scores else None
        polyp_id = draw(st.sampled_from([*ids, None]))
        rows.append((procedure["procedure_id"], frame, x, y, w, h, score, polyp_id, None))
    return rows


@st.composite
def box_sets(draw: st.DrawFn, scores: bool = True) -> DataSet:
    """One to three procedures with boxes, facts of patients and polyps; no images."""
    names = draw(
        st.lists(
            st.sampled_from(["001-001", "case 7", "a_b_3", "dataset0_é"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    boxes, polyps, procedures = [], [], []
    for name in names:
        procedure = procedure_row(
            name,
            draw(st.integers(1, 8)),
            dataset="one set",
            patient=draw(st.sampled_from(["p", name])),
            width=draw(st.integers(70, 2000)),
            height=draw(st.integers(50, 2000)),
            age=draw(st.none() | st.integers(18, 99)),
            sex=draw(st.none() | _words),
            brand=draw(st.none() | _words),
            fps=draw(st.none() | real(1, 120)),
            bbps=draw(st.none() | real(0, 9)),
        )
        ids = [
            f"{name}_{draw(_words)}" if draw(st.booleans()) else f"{name}_{k}" for k in range(1, 3)
        ]
        ids = list(dict.fromkeys(ids))
        for polyp_id in ids:
            polyps.append(
                {
                    "polyp_id": polyp_id,
                    "procedure_id": name,
                    "size_mm": draw(st.none() | real(0.5, 40)),
                    "histology": draw(st.none() | _words),
                    "histology_class": draw(st.none() | _words),
                    "location": draw(st.none() | st.sampled_from(["cecum", "sigma"])),
                    "morphology": draw(st.none() | st.sampled_from(["Is", "IIa"])),
                }
            )
        boxes += draw(_boxes(procedure, ids, scores))
        procedures.append(procedure)
    return DataSet.of(
        pl.DataFrame(boxes, schema=list(BOX), orient="row", infer_schema_length=None),
        pl.DataFrame(procedures, infer_schema_length=None),
        pl.DataFrame(polyps, infer_schema_length=None),
    )


def seen_set(dataset: str = "x") -> DataSet:
    """Two procedures by hand: two polyps and a box without one; scores; one frame without box."""
    rows = [
        ("001-001", 0, 10.5, 8, 20, 16, 0.5, "001-001_1"),
        ("001-001", 1, 11, 8.25, 20, 16, 0.75, "001-001_1"),
        ("001-001", 1, 40, 30, 10, 10, None, "001-001_2"),
        ("001-009", 2, 5, 5, 9, 9, 0.25, None),
    ]
    procedures = [procedure_row("001-001"), procedure_row("001-009", 4)]
    return DataSet.of(
        pl.DataFrame(rows, schema=list(BOX[:8]), orient="row"),
        pl.DataFrame(procedures).with_columns(dataset=pl.lit(dataset)),
        pl.DataFrame(
            {
                "polyp_id": ["001-001_1", "001-001_2"],
                "procedure_id": ["001-001", "001-001"],
                "size_mm": [3.0, None],
            }
        ),
    )
