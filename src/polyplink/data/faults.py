"""Faults of a source: left out and counted, or raised at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from polyplink.core.errors import PolyplinkError, one_line

LONGEST_LINE = 800  # characters of a line about a fault


class Rule(NamedTuple):
    """A fault that rows of a table may have.

    Attributes:
        kind: Kind of fault, for messages ("box of no area").
        hint: How to fix it.
        broken: Whether a row has the fault; null counts as no.
    """

    kind: str
    hint: str
    broken: pl.Expr


@dataclass
class Faults:
    """Faults noticed while reading a source.

    Attributes:
        strict: Whether a fault is raised instead of left out and counted.
        counts: Kind of fault or warning, in order of occurrence -> number and first place.

    Example:
        >>> faults = Faults()
        >>> faults.fault("box of no area", "boxes.csv, line 7", "correct it")
        >>> faults.lines()
        ['1 x box of no area, left out (first: boxes.csv, line 7)']
    """

    strict: bool = False
    counts: dict[str, tuple[int, str]] = field(default_factory=dict)

    def fault(
        self, kind: str, name: str, hint: str, count: int = 1, *, effect: str = "left out"
    ) -> None:
        """Count something that makes a box or frame, or a part of it, unusable.

        Args:
            kind: Kind of fault ("box of no area").
            name: The first place: a file or procedure, and the value.
            hint: How to fix it.
            count: Number of occurrences.
            effect: What becomes of it.

        Raises:
            PolyplinkError: If `strict` is set.
        """
        if self.strict:
            raise PolyplinkError(f"{name}: {kind}", f"{hint}, or import without --strict")
        self.warn(f"{kind}, {effect}", name, count)

    def warn(self, kind: str, name: str, count: int = 1) -> None:
        """Count something unusual that can still be used."""
        before, first = self.counts.get(kind, (0, name))
        self.counts[kind] = (before + count, first)

    def warn_rows(self, kind: str, rows: pl.DataFrame, column: str = "at") -> None:
        """Count one warning for each row of a table, named by the first row's value of a column."""
        if rows.height:
            self.warn(kind, str(rows[column][0]), rows.height)

    def warn_values(self, kind: str, values: pl.Series) -> None:
        """Count the different values of a column if there are several, and name them all."""
        names = [f"{v:g}" if isinstance(v, float) else str(v) for v in values.unique().sort()]
        if len(names) > 1:
            self.warn(kind, ", ".join(names), len(names))

    def add(self, other: "Faults") -> None:
        """Add the counts of another reader."""
        for kind, (count, name) in other.counts.items():
            self.warn(kind, name, count)

    def lines(self) -> list[str]:
        """One line for each kind: number, kind, and first place."""
        counts = self.counts.items()
        return [
            one_line(f"{n} x {kind} (first: {name})", LONGEST_LINE) for kind, (n, name) in counts
        ]


def apply_rules(
    table: pl.DataFrame, rules: Sequence[Rule], faults: Faults, *, show: Sequence[str] = ()
) -> pl.DataFrame:
    """Leave out rows that break a rule; a row that breaks several is counted under the first one.

    Args:
        table: Any table with a text column `at`: the place of each row in the source.
        rules: The rules, all evaluated in one pass.
        faults: Counts the rows left out by each rule, with the first row's `at`.
        show: Number columns that a message shows after `at`.

    Returns:
        The remaining rows.

    Raises:
        PolyplinkError: If strict, at the first rule that is broken.
    """
    number = pl.coalesce(
        pl.when(rule.broken).then(pl.lit(i, dtype=pl.Int32)) for i, rule in enumerate(rules)
    )
    first_broken = table.select(number.alias("rule")).to_series()
    if first_broken.null_count() == table.height:
        return table
    for i, rule in enumerate(rules):
        rows = (first_broken == i).arg_true()
        if rows.len():
            row = table.row(rows[0], named=True)
            place = row["at"]
            if show:
                place += f" ({', '.join(f'{row[name]:g}' for name in show)})"
            faults.fault(rule.kind, place, rule.hint, rows.len())
    return table.filter(first_broken.is_null())


def leave_out(
    table: pl.DataFrame, broken: pl.Expr, kind: str, hint: str, faults: Faults
) -> pl.DataFrame:
    """`apply_rules` with a single rule."""
    return apply_rules(table, [Rule(kind, hint, broken)], faults)
