"""Work that several processes share through a folder: each file is made by one of them.

Locks only divide the work. A file's content does not depend on the process that makes it, and a
file is renamed into place when complete, so a file system without locks only costs time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from polyplink.core.errors import PolyplinkError, first_line

Item = TypeVar("Item")

PAUSE = 0.2  # seconds between two checks of the files that other processes are making


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Claim a file for this process; yield False if another process has claimed it.

    The claim ends with the block, or with the process. A process that has claimed a file must
    check again whether it exists, because another may have made it just before.

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
    except (NotImplementedError, OSError):  # no locks here, or no right to write: fails later
        yield True
        return
    try:
        yield True
    finally:
        with suppress(PermissionError):  # Windows: release removes it
            # Before the release: no other process can have claimed it.
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Reserve an output folder for this process, so that no other mixes its results into it.

    If the block writes nothing, as after a mistake of the user, no new folder is left.

    Raises:
        PolyplinkError: If the folder cannot be created, or another process writes into it.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PolyplinkError(
            f"the folder {folder} cannot be created ({first_line(error)})",
            "name another output folder",
        ) from None
    try:
        with claimed(folder / "writer") as is_claimed:
            PolyplinkError.unless(
                is_claimed,
                f"another command writes into {folder} at the moment",
                "wait until it has ended, or name another folder",
            )
            yield
    finally:
        with suppress(OSError):  # not empty
            for path in new:
                path.rmdir()


def rounds(items: Sequence[Item], done: Callable[[Item], bool]) -> Iterator[list[Item]]:
    """Yield the list of items that are not done, again and again until all are.

    In each round the caller does the items that it can claim. Items that other processes have
    claimed are yielded again: if such a process is killed, a later round can claim its item.

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
