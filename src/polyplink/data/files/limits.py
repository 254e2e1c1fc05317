"""How much a source may hold, so that no small file fills the memory.

Real data sets meet none of these limits: annotations shrink to a twentieth when they are packed,
with their headers in a tar to a fiftieth, frames not at all. `polyplink import --no-limits` lifts
them, in worker processes too.
"""

import os
from pathlib import Path

from polyplink.core.errors import PolyplinkError

LARGEST_MEMBER = 64 << 20  # bytes of a member of an archive that may be packed as tightly as it is
MEMBER_RATIO = 50  # times its packed size, for a larger member
LARGEST_TOTAL = 256 << 20  # bytes of all members of an archive, however tightly packed
TOTAL_RATIO = 100  # times the size of the archive, for more
MOST_BOXES = 20_000_000
MOST_ROWS = 1_000_000  # of a table whose file has less than a byte for each row
MOST_CELLS = 1_000_000  # of a sheet, rows times columns up to its last cell, empty ones included
LIFTED = "POLYPLINK_NO_LIMITS"  # environment variable: set to lift the limits


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
    """Refuse an archive with members that grow too much together; as `check_member`."""
    if size > max(LARGEST_TOTAL, TOTAL_RATIO * packed):
        _refuse(f"{archive} holds {size >> 20} MiB or more in {packed >> 10} KiB")


def check_boxes_number(number: int) -> None:
    """Refuse more than `MOST_BOXES` boxes."""
    if number > MOST_BOXES:
        _refuse(f"{number} boxes are more than {MOST_BOXES}")


def check_rows(path: Path, rows: int) -> None:
    """Refuse a table of more rows than `MOST_ROWS` and than its file has bytes."""
    if rows > max(MOST_ROWS, path.stat().st_size):
        _refuse(f"{path} holds {rows} rows in {path.stat().st_size >> 10} KiB")


def check_cells(name: str, rows: int, columns: int, text: int) -> None:
    """Refuse a sheet with cells that would take too much memory.

    Args:
        name: The spreadsheet and the sheet.
        rows: Row of its last cell, from 1.
        columns: Column of its last cell, from 1.
        text: Bytes that the texts of all cells may have, those that cells share repeated.

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
        raise PolyplinkError(problem, "if it is no damage, import with --no-limits")
