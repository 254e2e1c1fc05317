"""Limits on the size of a source, so that no small file fills the memory.

Those of archives are here; readers of other files call `refuse_excess` with limits of their own.
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
        refuse_excess(f"{name}: {size >> 20} MiB, from {packed >> 10} KiB")


def check_total(archive: Path, size: int, packed: int) -> None:
    """Refuse an archive with members that are too large in total, see `check_member`."""
    if size > max(LARGEST_TOTAL, TOTAL_RATIO * packed):
        refuse_excess(f"{archive} holds {size >> 20} MiB or more in {packed >> 10} KiB")


def refuse_excess(problem: str) -> None:
    """Refuse a source that exceeds a limit, unless the limits are lifted."""
    if not os.environ.get(LIFTED):
        raise PolyplinkError(problem, "if the file is not damaged, import with --no-limits")
