"""Work that several processes share through a folder: each file is made by one of them.

Locks only divide the work. What a file holds does not depend on who makes it, and it is renamed
into its place when whole, so that a file system without locks costs time and nothing else.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from polyplink.core.errors import PolyplinkError

Item = TypeVar("Item")

PAUSE = 0.2  # seconds between two looks at what other processes are making


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Claim a file for this process; yields whether no other process holds it.

    The claim ends with the block, or with the process. A process that claims a file
    checks again whether it is there, because another may have made it just before.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with claimed(Path(folder, "a")) as mine, claimed(Path(folder, "a")) as again:
        ...         mine, again
        (True, False)
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"), fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    except (NotImplementedError, OSError):  # no locks here: whoever cannot write fails later
        yield True
        return
    try:
        yield True
    finally:
        with suppress(PermissionError):  # Windows: release removes it
            # By its holder: nobody else has claimed it.
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep an output folder to this process, for results that two processes would mix.

    Raises:
        PolyplinkError: If another process writes into the folder.
    """
    new = not folder.exists()
    try:
        with claimed(folder / "writer") as is_claimed:
            PolyplinkError.unless(
                is_claimed,
                f"another command writes into {folder} at the moment",
                "wait until it has ended, or name another folder",
            )
            yield
    finally:
        if new:  # nothing may have been written after all
            with suppress(OSError):
                folder.rmdir()


def rounds(items: Sequence[Item], done: Callable[[Item], bool]) -> Iterator[list[Item]]:
    """Yield the items that are not done, again and again until all are.

    In a round the caller does the items that it can claim. Those of other processes are waited for:
    if such a process is killed, the next round finds its item free.

    Args:
        items: All items.
        done: Whether an item is done, by this process or another one.
    """
    before: list[Item] = []
    while pending := [item for item in items if not done(item)]:
        if pending == before:
            time.sleep(PAUSE)
        before = pending
        yield pending
