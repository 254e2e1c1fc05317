"""Limits on the size of a source, so that no small file fills the memory.

Real data sets stay below these limits: annotations compress to a twentieth, with their headers in a
tar to a fiftieth, frames not at all. `polyplink import --no-limits` lifts the limits, in worker
processes too.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polyplink.core.errors import PolyplinkError

LARGEST_MEMBER = 64 << 20  # bytes of a member of an archive, at any compression
MEMBER_RATIO = 50  # largest compression ratio of a larger member
LARGEST_TOTAL = 256 << 20  # bytes of all members of an archive, at any compression
TOTAL_RATIO = 100  # largest ratio of all members to the archive, for more bytes
MOST_BOXES = 20_000_000
MOST_ROWS = 1_000_000  # of a table with a file of less than a byte per row
MOST_CELLS = 1_000_000  # of a sheet, rows times columns up to its last cell
LIFTED = "POLYPLINK_NO_LIMITS"  # environment variable: set to lift the limits


@contextmanager
def limits_lifted() -> Iterator[None]:
    """Lift the limits until the block ends, also in worker processes that it starts."""
    before = os.environ.get(LIFTED, "")
    os.environ[LIFTED] = "1"
    try:
        yield
    finally:
        os.environ[LIFTED] = before


def check_member(name: str, size: int, packed: int) -> None:
    """Refuse to read a member of an archive that is too large when unpacked.

    Args:
        name: The archive and the member.
        size: Unpacked size of the member, bytes.
        packed: Its size in the archive, or the size of the archive, bytes.

    Raises:
        PolyplinkError: If the member is larger than both `LARGEST_MEMBER` and `MEMBER_RATIO` times
            its packed size.
    """
    if size > max(LARGEST_MEMBER, MEMBER_RATIO * packed):
        _refuse(f"{name}: {size >> 20} MiB, from {packed >> 10} KiB")


def check_total(archive: Path, size: int, packed: int) -> None:
    """Refuse an archive with members that are too large in total, see `check_member`."""
    if size > max(LARGEST_TOTAL, TOTAL_RATIO * packed):
        _refuse(f"{archive} holds {size >> 20} MiB or more in {packed >> 10} KiB")


def check_boxes_number(number: int) -> None:
    """Refuse more than `MOST_BOXES` boxes."""
    if number > MOST_BOXES:
        _refuse(f"{number} boxes are more than {MOST_BOXES}")


def check_rows(path: Path, rows: int) -> None:
    """Refuse a table with more rows than both `MOST_ROWS` and the bytes of its file."""
    if rows > max(MOST_ROWS, path.stat().st_size):
        _refuse(f"{path} holds {rows} rows in {path.stat().st_size >> 10} KiB")


def check_cells(name: str, rows: int, columns: int, text: int) -> None:
    """Refuse a sheet with cells that would take too much memory.

    Args:
        name: The spreadsheet and the sheet.
        rows: Row of the last cell, from 1.
        columns: Column of the last cell, from 1.
        text: Upper bound of the bytes of all cells' texts, shared texts counted for each cell.

    Raises:
        PolyplinkError: If there are more than `MOST_CELLS`, or their texts could be more than
            `LARGEST_TOTAL`.
    """
    if rows * columns > MOST_CELLS:
        _refuse(f"{name}: {rows} rows x {columns} columns are more than {MOST_CELLS} cells")
    if text > LARGEST_TOTAL:
        _refuse(f"{name}: texts that cells share may take {text >> 20} MiB")


def _refuse(problem: str) -> None:
    if not os.environ.get(LIFTED):
        raise PolyplinkError(problem, "if the file is not damaged, import with --no-limits")
