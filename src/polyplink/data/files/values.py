"""Numbers and names as any source writes them: the one place where they are checked."""

import re

import polars as pl

from polyplink.core.errors import PolyplinkError

LARGEST = 2**31 - 1  # of any count, size or frame number: the tables hold 32-bit numbers
_EXACT = 2**53  # up to here a Float64 holds every whole number

_WHOLE = re.compile(r"0*(\d{1,10})")


def whole_number(text: str) -> int | None:
    """A whole number from 0 to `LARGEST`, written as digits alone; None for anything else.

    Example:
        >>> whole_number("0012"), whole_number("1.5"), whole_number("9" * 5000)
        (12, None, None)
    """
    match = _WHOLE.fullmatch(text)
    number = LARGEST + 1 if match is None else int(match[1])
    return number if number <= LARGEST else None


def track_name(column: str) -> pl.Expr:
    """Numbers of tracks, a column of Float64, as text; null where negative, too large or no number.

    A fraction is dropped.
    """
    value = pl.when(pl.col(column).is_between(0, _EXACT)).then(column)
    return value.cast(pl.Int64, strict=False).cast(pl.String)


def check_utf8(name: str, folder: object) -> str:
    """A file's name, if it is UTF-8: no table can hold another."""
    PolyplinkError.unless(
        name.isascii() or not re.search(r"[\ud800-\udfff]", name),
        f"the name of {name} in {folder} is not UTF-8",
        "rename it",
    )
    return name
