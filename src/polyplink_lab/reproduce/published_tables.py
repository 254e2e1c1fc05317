"""The published tables of the three papers: every cell, and how to compute it.

The values are in `published/values.csv`, one row for each cell, and the tables' captions in
`published/tables.csv`. Sources: NTSSL (arXiv 2605.12320), tables 1 and 2; temporally-aware
counting (arXiv 2507.02493), tables 1 to 3; the thesis that compares foundation models
(Bongiovanni, University of Padova 2025), tables 5.1 to 5.23 and A.1 to A.20.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import groupby

from polyplink.core.errors import find_named

PUBLISHED_MAP = "mAP (as published)"  # by torchmetrics, which ignores matches with cosine <= 0


def task_of(measure: str) -> str:
    """The first word of a measure: "size" of "size/F1"."""
    return measure.partition("/")[0]


@dataclass(frozen=True)
class Cell:
    """One published number, and the figure to measure for ours.

    Attributes:
        group: Part of the table: a heading over rows, or a block of columns; "" for none.
        row: Name of the row, as printed.
        column: Name of the column, as printed.
        text: Digits of the number as printed, in `unit`; "" for a cell that is not in the paper.
        spread: Digits of its standard deviation over leave-one-out folds; "" for none.
        unit: "%", "1" (a plain number), "M" (millions), "G" (billions).
        subject: Name of the encoder or method in the table, which need not be a recipe.
        crop: Crop factor psi; None for the full frame or if it does not matter.
        clip: Frames of a sample; None for a whole tracklet or if it does not matter.
        measure: The figure: "mAP", "temporal_ap/FR", "size/F1", "cost/macs", ...
        remark: Irregularities of the number; "" if none.
        bold: Whether it is printed in bold; recorded for the tables of temporally-aware counting.
    """

    group: str
    row: str
    column: str
    text: str
    spread: str
    unit: str
    subject: str
    crop: float | None
    clip: int | None
    measure: str
    remark: str
    bold: bool = False

    @property
    def value(self) -> float:
        """The number, in `unit`."""
        return float(self.text)

    @property
    def is_cost(self) -> bool:
        """Whether it is a cost of the encoder, which does not depend on data."""
        return task_of(self.measure) == "cost"


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper.

    Attributes:
        name: Name on the command line: "ntssl/1", "thesis/5.4".
        source: Paper and table.
        data: Name of the part on which it was measured.
        caption: Caption of the table.
        cells: The numbers, row by row as printed.
        ranked_by: The column by which rows are ranked; "" if the table is not a ranking.
    """

    name: str
    source: str
    data: str
    caption: str
    cells: tuple[Cell, ...]
    ranked_by: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Encoders and methods of the table, in order of first appearance."""
        return tuple(dict.fromkeys(cell.subject for cell in self.cells))

    @property
    def compares_crops(self) -> bool:
        """Whether the table compares crop factors."""
        return len({cell.crop for cell in self.cells if not cell.is_cost}) > 1


def _rows(name: str) -> Iterator[dict[str, str]]:
    path = files("polyplink_lab.reproduce") / "published" / name
    return csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))


def _cell(row: Mapping[str, str]) -> Cell:
    columns = ("group", "row", "column", "spread", "unit", "subject", "measure", "remark")
    return Cell(
        **{name: row[name] for name in columns},
        text=row["value"],
        crop=float(row["crop"]) if row["crop"] not in ("", "full") else None,
        clip=int(row["clip"]) if row["clip"] not in ("", "whole") else None,
        bold=bool(row["bold"]),
    )


@cache
def published_tables() -> Mapping[str, PublishedTable]:
    """All published tables by name, in the papers' order."""
    cells: dict[str, list[Cell]] = {}
    for row in _rows("values.csv"):
        cells.setdefault(row["table"], []).append(_cell(row))
    tables = {row.pop("table"): row for row in _rows("tables.csv")}
    return {
        name: PublishedTable(name, cells=tuple(cells[name]), **row) for name, row in tables.items()
    }


def published_table(name: str) -> PublishedTable:
    """A published table by name.

    Raises:
        PolyplinkError: If no table has the name; the message lists similar names or all.

    Example:
        >>> published_table("thesis/5.3").cells[0].value
        0.287
    """
    return find_named("published table", name, published_tables())


def both_precisions(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells of a table; for every mAP a cell as by torchmetrics is added at the row's end."""
    for _, row in groupby(cells, key=lambda cell: (cell.group, cell.row)):
        row_cells = list(row)
        yield from row_cells
        for cell in row_cells:
            if cell.measure == "mAP":
                name, column = (
                    text.replace("mAP", PUBLISHED_MAP) for text in (cell.row, cell.column)
                )
                yield replace(cell, row=name, column=column, measure=PUBLISHED_MAP, remark="")


def extended_cells(table: PublishedTable, columns: Sequence[str]) -> tuple[Cell, ...]:
    """The cells of a table and those that are added to it, in all or some columns."""
    cells = tuple(both_precisions(table.cells))
    cells = cells if table.ranked_by else tuple(with_learned_links(cells))
    return tuple(cell for cell in cells if not columns or cell.column in columns)


def in_columns(cells: Sequence[Cell], columns: Sequence[str]) -> tuple[Cell, ...]:
    """The cells needed for columns, including the mAP from which an added cell is derived."""

    def needed(cell: Cell) -> bool:
        return any(form.column in columns for form in both_precisions([cell]))

    return tuple(cell for cell in cells if not columns or needed(cell))


def with_learned_links(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells of a table; its last row of temporal AP is repeated with learned links.

    The added cells have no published number.
    """
    rows = [list(row) for _, row in groupby(cells, key=lambda cell: (cell.group, cell.row))]
    clustered = [[c for c in row if c.measure.startswith("temporal_ap/")] for row in rows]
    last = max((i for i, is_clustered in enumerate(clustered) if is_clustered), default=None)
    for i, row in enumerate(rows):
        yield from row
        if i == last:
            for cell in clustered[i]:
                measure = cell.measure.replace("temporal_ap/", "links/")
                name = f"{cell.row}, learned links of polyplink"
                yield replace(
                    cell, row=name, text="", spread="", remark="", bold=False, measure=measure
                )
