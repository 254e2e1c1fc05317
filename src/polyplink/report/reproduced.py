"""A published table beside ours: what a reader is shown, and the terminal's table."""

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from polyplink.report.formats import DASH, number, signed


@dataclass(frozen=True)
class ReproducedCell:
    """A published number and ours, both in the table's unit.

    Attributes:
        group: Part of the table, or "".
        row: Row of the table.
        column: Column of the table.
        unit: "%", "1", "M" or "G".
        published: The paper's number.
        published_text: Its digits as printed.
        published_spread: Its standard deviation where one is printed.
        ours: Our number, or None.
        low: Lower end of our 95 % interval, or None.
        high: Upper end.
        spread: Our standard deviation where the paper prints one.
        units: Independent units that ours rests on.
        units_of: What they are.
        difference: Ours minus the paper's; None where that would compare different things.
        why: Why there is no number of ours.
        remark: What is odd about the published one.
    """

    group: str
    row: str
    column: str
    unit: str
    published: float
    published_text: str
    published_spread: float | None
    ours: float | None
    low: float | None
    high: float | None
    spread: float | None
    units: int
    units_of: str
    difference: float | None
    why: str
    remark: str

    @property
    def digits(self) -> int:
        """Digits after the point, as the paper prints them, and one at least."""
        return max(1, len(self.published_text.partition(".")[2]))

    @property
    def paper_words(self) -> str:
        """The paper's number with its spread."""
        spread = "" if self.published_spread is None else f" ± {self.published_spread:g}"
        return f"{self.published_text}{spread}"

    @property
    def our_words(self) -> str:
        """Ours with its interval or spread, or a dash."""
        if self.ours is None:
            return DASH
        text = number(self.ours, self.digits)
        if self.low is not None and self.high is not None:
            text += f" [{number(self.low, self.digits)}, {number(self.high, self.digits)}]"
        elif self.spread is not None:
            text += f" ± {number(self.spread, self.digits)}"
        return text


@dataclass(frozen=True)
class ReproducedTable:
    """A table of a paper beside ours.

    Attributes:
        name: "ntssl/1".
        source: Paper and table.
        caption: What it shows.
        part: Part of the data set that ours is measured on.
        incomparable: Why a difference would compare different things; "" where it would not.
        anyway: Whether differences are shown all the same.
        cells: Its numbers.
    """

    name: str
    source: str
    caption: str
    part: str
    incomparable: str
    anyway: bool
    cells: tuple[ReproducedCell, ...]

    @property
    def computed(self) -> int:
        """How many cells have a number of ours."""
        return sum(cell.ours is not None for cell in self.cells)

    @property
    def reasons(self) -> dict[str, list[ReproducedCell]]:
        """Why cells were not computed, and which, in order of first appearance."""
        found: dict[str, list[ReproducedCell]] = {}
        for cell in self.cells:
            if cell.ours is None:
                found.setdefault(cell.why or "undefined on these data", []).append(cell)
        return found

    @property
    def remarks(self) -> list[tuple[str, list[ReproducedCell]]]:
        """What is odd about published numbers, and about which."""
        found: dict[str, list[ReproducedCell]] = {}
        for cell in self.cells:
            if cell.remark:
                found.setdefault(cell.remark, []).append(cell)
        return list(found.items())

    @property
    def banner(self) -> str:
        """What must stand above the numbers."""
        if not self.incomparable:
            return ""
        shown = "differences are shown all the same" if self.anyway else "no difference is shown"
        return f"{self.incomparable}: not comparable with the paper, {shown}"


def places(cells: list[ReproducedCell]) -> str:
    """Where cells are, in few words: rows and columns, or how many."""
    rows = list(dict.fromkeys(f"{c.group}: {c.row}" if c.group else c.row for c in cells))
    columns = list(dict.fromkeys(c.column for c in cells))
    if len(rows) > 3:
        return f"{len(cells)} cells"
    return f"{'; '.join(rows)} ({', '.join(columns)})"


def reproduced_table(result: ReproducedTable) -> Table:
    """One row per cell: the paper's number, ours, the difference."""
    table = Table(title=f"{result.name}: {result.caption}", title_justify="left")
    for name in ("", "row", "column"):
        table.add_column(name)
    ours = "ours" if not result.incomparable else f"ours ({result.incomparable})"
    for name in ("published", ours, "difference", "n"):
        table.add_column(name, justify="right")
    group, row = "", ""
    for cell in result.cells:
        if (cell.group, cell.row) != (group, row):
            table.add_section()
        first = cell.group if cell.group != group or cell.row != row else ""
        table.add_row(
            Text(first),
            Text(cell.row if (cell.group, cell.row) != (group, row) else ""),
            Text(cell.column),
            Text(cell.paper_words + ("*" if cell.remark else "")),
            Text(cell.our_words),
            signed(cell.difference, cell.digits) if cell.difference is not None else DASH,
            str(cell.units) if cell.ours is not None else "",
        )
        group, row = cell.group, cell.row
    return table
