"""Checks of numbers, for all sources."""

import re

import polars as pl

LARGEST = 2**31 - 1  # of any count, size or frame number: the tables hold 32-bit numbers
_EXACT = 2**53  # up to here a Float64 holds every whole number

_WHOLE = re.compile(r"0*(\d{1,10})")
_RECTANGLE = re.compile(",".join([r"\s*(\d{1,5}(?:\.\d+)?)\s*"] * 4), re.ASCII)


def whole_number(text: str) -> int | None:
    """A whole number from 0 to `LARGEST`, written with digits only; None for anything else.

    Example:
        >>> whole_number("0012"), whole_number("1.5"), whole_number("9" * 5000)
        (12, None, None)
    """
    match = _WHOLE.fullmatch(text)
    number = LARGEST + 1 if match is None else int(match[1])
    return number if number <= LARGEST else None


def rectangle(text: str) -> tuple[float, ...] | None:
    """Left, top, width and height in pixels, separated by commas; None for anything else.

    Example:
        >>> rectangle("0, 12.5,320,80"), rectangle("0,12,320")
        ((0.0, 12.5, 320.0, 80.0), None)
    """
    match = _RECTANGLE.fullmatch(text)
    return None if match is None else tuple(map(float, match.groups()))


def track_name(column: str) -> pl.Expr:
    """Track numbers of a Float64 column as text; null if negative, too large or not a number.

    The fractional part is dropped.
    """
    value = pl.when(pl.col(column).is_between(0, _EXACT)).then(column)
    return value.cast(pl.Int64, strict=False).cast(pl.String)
