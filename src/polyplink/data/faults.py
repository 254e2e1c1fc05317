"""Faults of a source: left out and counted, or raised at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from polyplink.core.errors import PolyplinkError, one_line
from polyplink.core.messages import Message

LONGEST_NAME = 600  # characters of a name or place of the source in a warning
LEFT_OUT = "import.left_out"  # kind of the warning about a fault
NOTED = "import.noted"  # kind of a warning about something that is used

Place = str | Message  # a name of the source, or a place in one of its files
_SEPARATOR = "\0"  # of the parts of a place in a column


class Rule(NamedTuple):
    """A fault that rows of a table may have.

    Attributes:
        kind: Kind of fault ("box of no area").
        hint: How to fix it.
        broken: Whether a row has the fault; null counts as no.
    """

    kind: Message
    hint: str
    broken: pl.Expr


class _Counted(NamedTuple):
    """Faults of one kind.

    Attributes:
        warning: Kind of the warning, which says what becomes of them.
        kind: Kind of fault; None if the warning names it.
        number: Their number.
        first: The first place; the names of all if the warning names the kind.
        hint: How to fix the first one; "" if it is used.
    """

    warning: str
    kind: Message | None
    number: int
    first: Place
    hint: str = ""


@dataclass
class Faults:
    """Faults noticed while reading a source.

    The kind of a fault is a message without a number, a noun in the singular.

    Attributes:
        strict: Whether a fault is raised instead of left out and counted.
        counts: Faults and warnings by kind, in order of occurrence.

    Example:
        >>> faults = Faults()
        >>> faults.fault(Message("import.no_area"), "boxes.csv, line 7", "correct it")
        >>> [str(message) for message in faults.messages]
        ['1 x box of no area, left out (boxes.csv, line 7)']
    """

    strict: bool = False
    counts: dict[tuple[Any, ...], _Counted] = field(default_factory=dict)

    def fault(
        self, kind: Message, first: Place, hint: str, count: int = 1, *, effect: str = LEFT_OUT
    ) -> None:
        """Count something that makes a box or frame, or a part of it, unusable.

        Args:
            kind: Kind of fault ("box of no area").
            first: The first place: a file or procedure, and the value.
            hint: How to fix it.
            count: Number of occurrences.
            effect: Kind of the warning, which says what becomes of it.

        Raises:
            PolyplinkError: If `strict` is set.
        """
        if self.strict:
            raise PolyplinkError(f"{first}: {kind}", f"{hint}, or import without --strict")
        self._count(_Counted(effect, kind, count, first, hint))

    def warn(self, kind: Message, first: Place, count: int = 1) -> None:
        """Count something unusual that can still be used."""
        self._count(_Counted(NOTED, kind, count, first))

    def warn_rows(self, kind: Message, rows: pl.DataFrame, column: str = "at") -> None:
        """Count one warning for each row of a table, named by the first row's value of a column."""
        if rows.height:
            first = str(rows[column][0])
            self.warn(kind, place_of(first) if column == "at" else first, rows.height)

    def warn_values(self, warning: str, values: pl.Series) -> None:
        """Count the different values of a column if there are several, and name them all.

        Args:
            warning: Kind of the warning, a sentence with the number `n` and the `names`.
            values: The column.
        """
        names = [f"{v:g}" if isinstance(v, float) else str(v) for v in values.unique().sort()]
        if len(names) > 1:
            self._count(_Counted(warning, None, len(names), ", ".join(names)))

    def add(self, other: "Faults") -> None:
        """Add the counts of another reader."""
        for counted in other.counts.values():
            self._count(counted)

    def number_of(self, kind: Message, effect: str = NOTED) -> int:
        """Number of faults or warnings of a kind, see `fault` and `warn`."""
        counted = self.counts.get(_key(effect, kind))
        return 0 if counted is None else counted.number

    @property
    def n_left_out(self) -> int:
        """Number of all faults that were left out."""
        return sum(c.number for c in self.counts.values() if c.warning == LEFT_OUT)

    def check_some_usable(self, boxes: pl.DataFrame, total: int) -> None:
        """Refuse a source of boxes of which none can be used.

        Args:
            boxes: The usable boxes.
            total: Number of boxes in the source.

        Raises:
            PolyplinkError: If there are boxes and all are left out; names the first fault.
        """
        left_out, hint = self.first_left_out
        if boxes.is_empty() and total > 0:
            raise PolyplinkError(f"no usable box among {total}: {left_out}", hint)

    @property
    def messages(self) -> list[Message]:
        """One warning for each kind: number, kind, and first place."""
        return [_message(counted) for counted in self.counts.values()]

    @property
    def first_left_out(self) -> tuple[str, str]:
        """What was left out first, and how to fix it; or that nothing was there."""
        for counted in self.counts.values():
            if counted.warning == LEFT_OUT:
                return str(_message(counted)), counted.hint
        return "it is empty", "correct it at the source"

    def _count(self, new: _Counted) -> None:
        key = _key(new.warning, new.kind)
        before = self.counts.get(key)
        if before is not None:
            new = before._replace(number=before.number + new.number)
        self.counts[key] = new


def _message(counted: _Counted) -> Message:
    """The warning about faults of one kind."""
    kind, first = counted.kind, counted.first
    values = {"names": first} if kind is None else {"what": kind, "first": first}
    message: Message = _on_one_line(Message(counted.warning, {"n": counted.number, **values}))
    return message


def _key(warning: str, kind: Message | None) -> tuple[Any, ...]:
    """What faults of one kind have in common."""
    return (warning,) if kind is None else (warning, kind.kind, *kind.values.items())


def _on_one_line(value: Any) -> Any:
    """A value of a message with its names and places on one line each."""
    if isinstance(value, Message):
        return Message(
            value.kind, {name: _on_one_line(part) for name, part in value.values.items()}
        )
    return one_line(value, LONGEST_NAME) if isinstance(value, str) else value


def warn_of_rate(
    procedures: pl.DataFrame, unused_rate: pl.Expr, used_rate: pl.Expr, faults: Faults
) -> None:
    """Warn of procedures with a frame rate that is not used and differs by more than 1 %.

    Args:
        procedures: With the column procedure_id.
        unused_rate: Frames per second that are not used; null if there are none.
        used_rate: Frames per second that are used.
        faults: Extended by the warning.
    """
    with_other_rate = procedures.filter((unused_rate - used_rate).abs() > 0.01 * used_rate)
    faults.warn_rows(Message("import.other_rate"), with_other_rate, "procedure_id")


def place_text(kind: str, **values: pl.Expr | str) -> pl.Expr:
    """Places in a source as text for a column `at`, from which `place_of` makes messages.

    Args:
        kind: Kind of place in the catalogue ("place.line").
        values: The values of its sentence, or names of their columns.
    """
    parts: list[pl.Expr | str] = [pl.lit(kind)]
    for name, value in values.items():
        column = pl.col(value) if isinstance(value, str) else value
        text = column.cast(pl.String).str.replace_all(_SEPARATOR, " ", literal=True)
        parts += [pl.lit(name), text]
    return pl.concat_str(parts, separator=_SEPARATOR)


def place_of(text: str) -> Place:
    """The place that a value of a column `at` stands for; a name that is no `place_text` as it is.

    Example:
        >>> table = pl.DataFrame({"line": [7]})
        >>> at = table.select(place_text("place.line", file=pl.lit("boxes.csv"), number="line"))
        >>> place_of(at.item()).text("de")
        'boxes.csv, Zeile 7'
    """
    kind, *values = text.split(_SEPARATOR)
    if not values or not kind.startswith("place."):
        return text
    return Message(kind, dict(zip(values[::2], values[1::2], strict=True)))


def with_value(where: Place, value: str) -> Message:
    """A place, and the value there."""
    return Message("place.value", {"place": where, "value": value})


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
            first = place_of(row["at"])
            if show:
                first = with_value(first, ", ".join(f"{row[name]:g}" for name in show))
            faults.fault(rule.kind, first, rule.hint, rows.len())
    return table.filter(first_broken.is_null())


def leave_out(
    table: pl.DataFrame, broken: pl.Expr, kind: Message, hint: str, faults: Faults
) -> pl.DataFrame:
    """`apply_rules` with a single rule."""
    return apply_rules(table, [Rule(kind, hint, broken)], faults)
