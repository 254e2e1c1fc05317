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

PUBLISHED_MAP = "mAP (as published)"  # by torchmetrics: without matches of cosine 0 or below


@dataclass(frozen=True)
class Cell:
    """One published number and what has to be measured to get ours.

    Attributes:
        group: Part of the table: a heading over rows, or a block of columns; "" without.
        row: Name of the row, as printed.
        column: Name of the column, as printed.
        text: The number's digits as printed, in `unit`; "" for a cell that is not in the paper.
        spread: The digits of its standard deviation over leave-one-out folds; "" without.
        unit: "%", "1" (a plain number), "M" (millions), "G" (billions).
        subject: The encoder or method: a name of the table, not yet a recipe.
        crop: Crop factor psi; None for the full frame or where it does not matter.
        clip: Frames of a sample; None for a whole tracklet or where it does not matter.
        measure: What is measured: "mAP", "temporal_ap/FR", "size/F1", "cost/macs", ...
        remark: Irregularities of the number; "" if none.
        bold: Whether it is printed in bold; known of the tables of temporally-aware counting.
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


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper.

    Attributes:
        name: As the command line takes it: "ntssl/1", "thesis/5.4".
        source: Paper and table.
        data: What it was measured on, by name of a part.
        caption: What it shows.
        cells: Its numbers, row by row as printed.
        ranked_by: The column that its rows are ranked by; "" if it is no ranking.
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
def published() -> Mapping[str, PublishedTable]:
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
        PolyplinkError: If no table has the name; the message names the nearest or all.

    Example:
        >>> published_table("thesis/5.3").cells[0].value
        0.287
    """
    return find_named("published table", name, published())


def both_precisions(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells of a table, every mAP also as torchmetrics averages it, at the end of its row."""
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
    """The cells of a table with those that are added to the paper's, all or of some columns."""
    cells = tuple(both_precisions(table.cells))
    cells = cells if table.ranked_by else tuple(with_learned_links(cells))
    return tuple(cell for cell in cells if not columns or cell.column in columns)


def in_columns(cells: Sequence[Cell], columns: Sequence[str]) -> tuple[Cell, ...]:
    """The cells that columns need: theirs, and the mAP that another precision is made from."""

    def needed(cell: Cell) -> bool:
        return any(form.column in columns for form in both_precisions([cell]))

    return tuple(cell for cell in cells if not columns or needed(cell))


def with_learned_links(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells of a table, its last row of temporal affinity propagation also with learned links.

    These cells have no published number.
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
