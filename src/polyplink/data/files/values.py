"""Numbers, names and sizes as any source has them: the one place where they are checked.

Limits of size keep a small file from filling the memory. Real data sets meet none of them:
annotations shrink to a twentieth when they are packed, frames not at all. `polyplink import
--no-limits` lifts them, in worker processes too.
"""

import os
import re
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError

LARGEST = 2**31 - 1  # of any count, size or frame number: the tables hold 32-bit numbers
_EXACT = 2**53  # up to here a Float64 holds every whole number

LARGEST_MEMBER = 64 << 20  # bytes of a member of an archive that may be packed as tightly as it is
MEMBER_RATIO = 50  # times its packed size, for a larger member
LARGEST_TOTAL = 256 << 20  # bytes of all members of an archive, however tightly packed
TOTAL_RATIO = 200  # times the size of the archive, for more
MOST_BOXES = 20_000_000
LIFTED = "POLYPLINK_NO_LIMITS"  # environment variable: set to lift the limits

_WHOLE = re.compile(r"0*(\d{1,10})")


def whole_number(text: str) -> int | None:
    """A whole number from 0 to `LARGEST`, written as digits alone; None for anything else.

    Example:
        >>> whole_number("0012"), whole_number("1.5"), whole_number("9" * 5000)
        (12, None, None)
    """
    found = _WHOLE.fullmatch(text)
    number = LARGEST + 1 if found is None else int(found[1])
    return number if number <= LARGEST else None


def track_name(column: str) -> pl.Expr:
    """Numbers of tracks, a column of Float64, as text; null where negative, too large or no number.

    A fraction is dropped.
    """
    value = pl.when(pl.col(column).is_between(0, _EXACT)).then(column)
    return value.cast(pl.Int64, strict=False).cast(pl.String)


def check_utf8(name: str, folder: object) -> str:
    """A file's name, if it is UTF-8: no table can hold another.

    Raises:
        PolyplinkError: If it is not.
    """
    PolyplinkError.unless(
        name.isascii() or not re.search(r"[\ud800-\udfff]", name),
        f"the name of {name} in {folder} is not UTF-8",
        "rename it",
    )
    return name


def check_member(name: str, size: int, packed: int) -> None:
    """Refuse a member of an archive that is to be read and grows too much.

    Args:
        name: The archive and the member.
        size: Its size, bytes.
        packed: Its size in the archive, or that of the archive.

    Raises:
        PolyplinkError: If it is larger than `LARGEST_MEMBER` and `MEMBER_RATIO` times its packed
            size.
    """
    if size > max(LARGEST_MEMBER, MEMBER_RATIO * packed):
        _refuse(f"{name}: {size >> 20} MiB, from {packed >> 10} KiB")


def check_total(archive: Path, size: int, packed: int) -> None:
    """Refuse an archive whose members grow too much together; as `check_member`."""
    if size > max(LARGEST_TOTAL, TOTAL_RATIO * packed):
        _refuse(f"{archive} holds {size >> 20} MiB or more in {packed >> 10} KiB")


def check_boxes_number(number: int) -> None:
    """Refuse more than `MOST_BOXES` boxes.

    Raises:
        PolyplinkError: If there are more.
    """
    if number > MOST_BOXES:
        _refuse(f"{number} boxes are more than {MOST_BOXES}")


def _refuse(what: str) -> None:
    if not os.environ.get(LIFTED):
        raise PolyplinkError(what, "if it is no damage, import with --no-limits")
