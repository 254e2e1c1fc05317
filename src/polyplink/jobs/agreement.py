"""Rows of a comparison: a published figure beside a simulated one, and how far they may differ."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Values = tuple[float, ...]
Fits = Callable[[float, float], bool]


@dataclass(frozen=True)
class Row:
    """One figure, or several that belong together.

    Attributes:
        name: What it is, with its unit.
        published: The published values; for a limit, the limit.
        simulated: Those of the simulated tables, in the same order.
        tolerance: How far they may differ, in words.
        holds: Whether they differ no further.
        source: Who published it.
    """

    name: str
    published: Values
    simulated: Values
    tolerance: str
    holds: bool
    source: str


@dataclass(frozen=True)
class Figure:
    """A published figure; its methods hold a simulated one against it.

    Attributes:
        name: What it is.
        source: Who published it.
        published: Its values.
    """

    name: str
    source: str
    published: Values

    def exactly(self, *simulated: float) -> Row:
        """The same values."""
        return self._row(simulated, "exact", lambda p, v: p == v)

    def within(self, share: float, *simulated: float) -> Row:
        """Values that differ by a share of the published ones at most."""
        return self._row(simulated, f"{100 * share:g}%", lambda p, v: abs(v - p) <= share * abs(p))

    def nearer_than(self, distance: float, *simulated: float) -> Row:
        """Values that differ by so much at most, in their own unit."""
        return self._row(simulated, f"+- {distance:g}", lambda p, v: abs(v - p) <= distance)

    def at_most(self, *simulated: float) -> Row:
        """Values up to the published ones."""
        return self._row(simulated, "at most", lambda p, v: v <= p)

    def at_least(self, *simulated: float) -> Row:
        """Values from the published ones."""
        return self._row(simulated, "at least", lambda p, v: v >= p)

    def above(self, *simulated: float) -> Row:
        """Values above the published ones."""
        return self._row(simulated, "above", lambda p, v: v > p)

    def _row(self, simulated: Values, tolerance: str, fits: Fits) -> Row:
        values = tuple(float(value) for value in simulated)  # counts may come as unsigned
        holds = len(values) == len(self.published) and all(
            math.isfinite(v) and fits(p, v) for p, v in zip(self.published, values, strict=True)
        )
        return Row(self.name, self.published, values, tolerance, holds, self.source)


def rows_text(rows: Sequence[Row]) -> str:
    """The rows as a table of plain text, one line each, a newline at the end."""
    header = ("", "published", "simulated", "tolerance", "holds")
    lines = [header] + [
        (
            r.name,
            _values(r.published),
            _values(r.simulated),
            r.tolerance,
            "yes" if r.holds else "NO",
        )
        for r in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _values(values: Values) -> str:
    return " ".join(_value(value) for value in values)


def _value(value: float) -> str:
    if math.isfinite(value) and value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3f}"
