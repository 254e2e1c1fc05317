"""A published table compared with our figures: records, printing and output files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from polyplink.core.artefacts import write_text
from polyplink.core.text import many
from polyplink.evaluate.intervals import Figure, Resampled, no_different
from polyplink.evaluate.metric import ideal_of
from polyplink.report.formats import DASH, environment, figure_text, signed
from polyplink.report.latex import TexCell, tabular, tex
from polyplink.report.printed_tables import write_rows
from polyplink_lab.reproduce.published_tables import Cell


@dataclass(frozen=True)
class ReproducedCell:
    """A published number and ours, both in the table's unit.

    Attributes:
        group: Part of the table, or "".
        row: Row of the table.
        column: Column of the table.
        unit: "%", "1", "M" or "G".
        published: Digits of the paper's number, as printed; "" if the paper has none.
        spread: Digits of its standard deviation; "" if none is printed.
        ours: Our figure; its value is missing if it was not computed.
        units_of: The independent units of our figure ("procedures").
        difference: Ours minus the paper's; None if the two are not comparable.
        remark: Irregularities of the published number, and of our measurement.
        best: Whether ours is the best of its column or not different from it (p > 0.05).
        stand_in: The network that was measured, if it is not the one named in the row; else "".
        published_bold: Whether the paper prints its number in bold.
    """

    group: str
    row: str
    column: str
    unit: str
    published: str
    spread: str
    ours: Figure
    units_of: str
    difference: float | None
    remark: str
    best: bool = False
    stand_in: str = ""
    published_bold: bool = False

    @property
    def published_words(self) -> str:
        """The paper's number with its standard deviation."""
        return f"{self.published} ± {self.spread}" if self.spread else self.published or DASH

    @property
    def our_words(self) -> str:
        """Our figure with as many digits as the paper prints, at least one."""
        return figure_text(self.ours, self._digits)

    @property
    def difference_words(self) -> str:
        """The difference with its sign, or a dash."""
        return signed(self.difference, self._digits)

    @property
    def units_words(self) -> str:
        """The independent units of our figure, as "19 procedures"; "" if it is missing."""
        return f"{self.ours.n} {self.units_of}" if self.ours.value is not None else ""

    @property
    def _digits(self) -> int:
        return max(1, len(self.published.partition(".")[2])) if self.published else 2


@dataclass(frozen=True)
class ReproducedTable:
    """A table of a paper compared with our figures.

    Attributes:
        name: Name of the table, such as "ntssl/1".
        source: Paper and table.
        caption: Caption of the table.
        part: Part of the data set on which ours was measured.
        incomparable: Why differences would be meaningless ("SIMULATED data"); "" if they are not.
        anyway: Whether differences are shown nevertheless.
        cells: The cells.
        settings: Settings of our measurement in which the papers differ.
        ranked_by: The column by which rows are ranked; "" if the table is not a ranking.
    """

    name: str
    source: str
    caption: str
    part: str
    incomparable: str
    anyway: bool
    cells: tuple[ReproducedCell, ...]
    settings: str = ""
    ranked_by: str = ""

    @property
    def computed(self) -> int:
        """Number of cells with a number of ours."""
        return sum(cell.ours.value is not None for cell in self.cells)

    @property
    def of_data(self) -> int:
        """Number of cells with a number of ours that depends on the data, which costs do not."""
        cells = (cell for cell in self.cells if cell.units_of != "encoder")
        return sum(cell.ours.value is not None for cell in cells)

    @property
    def summary(self) -> dict[str, int]:
        """Number of cells with a number of ours, and total number of cells."""
        return {"computed": self.computed, "cells": len(self.cells)}

    @property
    def rows(self) -> list[tuple[str, str, list[ReproducedCell]]]:
        """Consecutive cells of one row: group, row ("(stand-in)" if it is one) and the cells."""
        by_row = groupby(self.cells, key=lambda cell: (cell.group, cell.row))
        rows = [(group, row, list(cells)) for (group, row), cells in by_row]
        return [
            (group, f"{row} (stand-in)" if any(c.stand_in for c in cells) else row, cells)
            for group, row, cells in rows
        ]

    @property
    def stand_ins(self) -> dict[str, list[ReproducedCell]]:
        """Stand-in network -> its cells."""
        return _by_text((cell.stand_in, cell) for cell in self.cells if cell.stand_in)

    @property
    def reasons(self) -> dict[str, list[ReproducedCell]]:
        """Reason why cells were not computed -> these cells."""
        missing = (cell for cell in self.cells if cell.ours.value is None)
        return _by_text((cell.ours.why or "undefined on these data", cell) for cell in missing)

    @property
    def remarks(self) -> dict[str, list[ReproducedCell]]:
        """Remark -> its cells."""
        return _by_text((cell.remark, cell) for cell in self.cells if cell.remark)

    @property
    def rankings(self) -> list[str]:
        """For a ranking, the published and our order of the rows in each group."""
        lines, ideal = [], ideal_of(self.ranked_by)
        ranked = [cell for cell in self.cells if cell.column == self.ranked_by]
        for group, cells in _by_text((cell.group, cell) for cell in ranked).items():
            values = [(cell.ours.value, cell.row) for cell in cells if cell.ours.is_defined]
            ranks = [(-v if ideal is None else abs(v - ideal), row) for v, row in values]  # type: ignore[operator]
            equal: dict[float, list[str]] = {}
            for value, row in sorted(ranks, key=lambda pair: pair[0]):
                equal.setdefault(value, []).append(row)
            order = [" = ".join(rows) for rows in equal.values()]
            place = f" ({group})" if group else ""
            lines.append(
                f"ranking by {self.ranked_by}{place}: published "
                f"{', '.join(cell.row for cell in cells)}; ours {', '.join(order) or DASH}"
            )
        return lines

    @property
    def banner(self) -> str:
        """A warning above numbers that are not comparable with the paper's; "" if they are."""
        if not self.incomparable:
            return ""
        policy = "differences are shown nevertheless" if self.anyway else "no difference is shown"
        return f"{self.incomparable}: not comparable with the paper, {policy}"


def _by_text(pairs: Iterable[tuple[str, ReproducedCell]]) -> dict[str, list[ReproducedCell]]:
    """Cells grouped by a text, in order of first appearance."""
    grouped: dict[str, list[ReproducedCell]] = {}
    for text, cell in pairs:
        grouped.setdefault(text, []).append(cell)
    return grouped


def places(cells: Sequence[ReproducedCell]) -> str:
    """A short description of cells: rows and columns, or the number of cells."""
    rows = list(dict.fromkeys(f"{c.group}: {c.row}" if c.group else c.row for c in cells))
    columns = list(dict.fromkeys(c.column for c in cells))
    if len(rows) > 3:
        return many(len(cells), "cell")
    return f"{'; '.join(rows)} ({', '.join(columns)})"


def best_cells(cells: Sequence[Cell], resampled: Sequence[Resampled | None]) -> set[int]:
    """The cells to print in bold: the best of a column and those not different from it.

    Groups that show the same encoder (the halves of ntssl/2) are compared separately.

    Args:
        cells: The n cells.
        resampled: (n,) our figures with resamples; None for cells without.

    Returns:
        Indices of cells.
    """
    groups = {(cell.group, cell.subject) for cell in cells}
    apart = len(groups) > len({subject for _, subject in groups})
    columns: dict[tuple[str, ...], dict[str, Resampled]] = {}
    for i, (cell, figure) in enumerate(zip(cells, resampled, strict=True)):
        if figure is not None:
            kind, units = cell.measure.rpartition("/")[2], str(figure.taking_part.size)
            key = (cell.group if apart else "", cell.column, units, kind)
            columns.setdefault(key, {})[str(i)] = figure
    return {
        int(i) for key, figures in columns.items() for i in no_different(figures, ideal_of(key[-1]))
    }


def lines_below(result: ReproducedTable) -> list[str]:
    """The lines below a table: rankings, settings, missing cells, remarks and stand-ins."""
    total = f"{result.computed} of {len(result.cells)} cells computed on the part {result.part}"
    if result.computed and not result.of_data:
        total += ", all of them costs of encoders that need no data"
    return [
        *(*result.rankings, result.settings, total),
        *(f"not computed: {places(cells)}: {reason}" for reason, cells in result.reasons.items()),
        *(f"* {places(cells)}: {remark}" for remark, cells in result.remarks.items()),
        *(f"(stand-in) {places(cells)}: {used}" for used, cells in result.stand_ins.items()),
    ]


def reproduced_table(result: ReproducedTable) -> Table:
    """A table for the terminal: one row per cell with the paper's number, ours, the difference."""
    table = Table(title=f"{result.name}: {result.caption}", title_justify="left")
    for name in ("", "row", "column"):
        table.add_column(name)
    heading = "ours" if not result.incomparable else f"ours ({result.incomparable})"
    for name in ("published", heading, "difference", "n"):
        table.add_column(name, justify="right")
    for group, row, cells in result.rows:
        table.add_section()
        for i, cell in enumerate(cells):
            table.add_row(
                *(Text(name if i == 0 else "") for name in (group, row)),
                Text(cell.column),
                Text(
                    cell.published_words + ("*" if cell.remark else ""),
                    style="bold" if cell.published_bold else "",
                ),
                Text(cell.our_words, style="bold" if cell.best else ""),
                cell.difference_words,
                str(cell.ours.n) if cell.ours.value is not None else "",
            )
    return table


def states_table(states: Iterable[Mapping[str, Any]]) -> Table:
    """A table for the terminal: every published table with its requirements and their state.

    Args:
        states: Mappings with name, cells, data, recipes, weights, runs ("whole", "in part",
            "not"), standings and missing, as `polyplink reproduce list --json` prints them.
    """
    table = Table(
        caption="runs: whether the table can be computed now, given the data (whole, in part, not)."
        " missing: encoders to get; `--json` says how. e, i, u: numbers of exact, inferred and "
        "unavailable cells; `--json` says which, and why",
        caption_justify="left",
    )
    table.add_column("table", no_wrap=True)
    table.add_column("cells", justify="right")
    table.add_column("e, i, u", justify="right", no_wrap=True)
    table.add_column("runs", no_wrap=True)
    for name in ("data", "needs", "missing"):
        table.add_column(name)
    for state in states:
        needs, missing = [*state["recipes"], *state["weights"]], state["missing"]
        table.add_row(
            state["name"],
            str(state["cells"]),
            " ".join(map(str, state["standings"].values())),
            state["runs"],
            Text(state["data"]),
            Text(", ".join(needs)),
            Text("all of them" if len(missing) == len(needs) else ", ".join(missing)),
        )
    return table


def write_reproduced(folder: Path, result: ReproducedTable) -> None:
    """Write table.html (to read), table.csv (for computations) and table.tex (to print)."""
    page = environment("polyplink_lab.reproduce").get_template("reproduced.html.j2")
    write_text(folder / "table.html", page.render(table=result, places=places))
    write_text(folder / "table.tex", latex(result))
    rows = [
        {
            "table": result.name,
            "group": cell.group,
            "row": cell.row,
            "column": cell.column,
            "unit": cell.unit,
            "published": cell.published,
            "published_spread": cell.spread,
            "published_bold": cell.published_bold,
            "ours": cell.ours.value,
            "low": cell.ours.low,
            "high": cell.ours.high,
            "spread": cell.ours.sd,
            "best": cell.best,
            "units": cell.ours.n if cell.ours.value is not None else None,
            "units_of": cell.units_of,
            "difference": cell.difference,
            "not_comparable": result.incomparable,
            "missing": cell.ours.why,
            "remark": cell.remark,
            "stand_in": cell.stand_in,
        }
        for cell in result.cells
    ]
    write_rows(folder / "table.csv", rows)


def latex(result: ReproducedTable) -> str:
    """The table in LaTeX with the paper's columns; each published row is followed by ours.

    The caption states whether figures are comparable; cells that were not computed are listed.
    """
    caption = f"{result.caption} ({result.source})."
    if result.banner:
        caption += f" {result.banner}."
    columns = list(dict.fromkeys(cell.column for cell in result.cells))
    groups: dict[str, list[list[TexCell]]] = {}
    for group, row, cells in result.rows:
        at = {cell.column: cell for cell in cells}
        rows = groups.setdefault(group, [])
        row_cells, none = [at.get(column) for column in columns], TexCell("")
        published = [TexCell(c.published_words, c.published_bold) if c else none for c in row_cells]
        rows.append([TexCell(f"{row} (published)"), *published])
        our_cells = [TexCell(c.our_words, c.best) if c else none for c in row_cells]
        rows.append([TexCell("ours"), *our_cells])
    lines = [tabular(["", *columns], groups), "", tex(caption)]
    for line in result.rankings:
        lines += ["", tex(f"{line}.")]
    for used, cells in result.stand_ins.items():
        lines += ["", tex(f"(stand-in) {places(cells)}: {used}.")]
    for reason, cells in result.reasons.items():
        lines += ["", tex(f"Not computed: {places(cells)}: {reason}.")]
    return "\n".join([*lines, ""])
