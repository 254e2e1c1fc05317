"""Runs of commands: how several at once share a folder, and the record of each, run.json.

Work is shared by file: each is made by one process. Locks only divide the work: a file's content
does not depend on the process that makes it, and a file is renamed into place when complete, so a
file system without locks only costs time. A command that writes over hours reserves its whole
folder by `sole_writer`; one whose files change together writes them with `RunRecord.results`.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from polyplink import __version__
from polyplink.core.artefacts import change_folder, finish_change, read_json, to_plain, write_json
from polyplink.core.errors import PolyplinkError, first_line, warn_remade

Item = TypeVar("Item")

PAUSE = 0.2  # seconds between two checks of the files that other processes are making


@contextmanager
def file_claim(path: Path) -> Iterator[bool]:
    """Claim a file for this process; yield False if another process has claimed it.

    The claim ends with the block, or with the process. A process that has claimed a file must
    check again whether it exists, because another may have made it just before.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with file_claim(Path(folder, "a")) as mine, file_claim(Path(folder, "a")) as again:
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
def claim_unmade(path: Path, is_made: Callable[[], bool]) -> Iterator[bool]:
    """Claim a file; yield whether this process is to make it.

    It is not if another process has claimed it, or if it was made in the meantime. A file of an
    earlier run that does not fit is announced.

    Args:
        path: The file.
        is_made: Whether it exists and fits.
    """
    with file_claim(path) as is_claimed:
        is_missing = is_claimed and not is_made()
        if is_missing and path.is_file():
            warn_remade(path)
        yield is_missing


def until_done(items: Sequence[Item], done: Callable[[Item], bool]) -> Iterator[list[Item]]:
    """Yield the list of items that are not done, again and again until all are.

    In each round the caller does the items that it can claim. Items that other processes have
    claimed are yielded again: if such a process is killed, a later round can claim its item.

    Args:
        items: All items.
        done: Whether an item is done, by this process or another one.
    """
    previous: list[Item] = []
    while pending := [item for item in items if not done(item)]:
        if pending == previous:
            time.sleep(PAUSE)
        previous = pending
        yield pending


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Reserve an output folder for this process, so that no other mixes its results into it.

    If the block writes nothing, as after a mistake of the user, no new folder is left.

    Raises:
        PolyplinkError: If the folder cannot be created or written to, or another process writes
            into it.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PolyplinkError(
            f"the folder {folder} cannot be created ({first_line(error)})",
            "name another output folder",
        ) from None
    if not os.access(folder, os.W_OK):  # not hours later, when the first result is written
        raise PolyplinkError(
            f"no permission to write into {folder}",
            "change its permissions, or name another folder",
        )
    try:
        with file_claim(folder / "writer") as is_claimed:
            if not is_claimed:
                raise PolyplinkError(
                    f"another command writes into {folder} at the moment",
                    "wait until it has ended, or name another folder",
                )
            yield
    finally:
        with suppress(OSError):  # not empty
            for path in new:
                path.rmdir()


def machine() -> dict[str, Any]:
    """Hardware and software of the run, without names of people or hosts."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def read_run(folder: Path) -> dict[str, Any]:
    """The run.json of a folder (see `RunRecord.as_dict`); empty if there is none.

    Raises:
        PolyplinkError: If it is not JSON, or no JSON object.
    """
    path = folder / "run.json"
    record = read_json(path) if path.is_file() else {}
    if not isinstance(record, dict):
        raise PolyplinkError(f"{path} was not written by polyplink", "name another folder")
    return record


class RunRecord:
    """The contents of a run.json: inputs, settings, seed and time per stage.

    Example:
        >>> record = RunRecord("prepare", settings={"size": 64}, inputs={"data": "0123"})
        >>> with record.stage("tracklets"):
        ...     pass
        >>> sorted(record.as_dict())[:3]
        ['command', 'finished', 'inputs']
    """

    def __init__(
        self,
        command: str,
        *,
        settings: Any = None,
        seed: int | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        self.command = command
        self.settings = settings
        self.seed = seed
        self.inputs = dict(inputs or {})
        self.started = datetime.now(UTC)
        self.seconds: dict[str, float] = {}

    def claim(self, folder: Path) -> None:
        """Refuse to write into the output folder of another command.

        Raises:
            PolyplinkError: If `folder` is a file, or holds the run.json of another command or
                program.
        """
        if folder.is_file():
            raise PolyplinkError(f"{folder} is a file", "name a folder")
        finish_change(folder)
        record = read_run(folder)
        command = record.get("command", "another program")
        if record and command != self.command:
            raise PolyplinkError(f"{folder} holds a run of `{command}`", "name another folder")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; times of the same name are added."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values; times in seconds, dates in UTC."""
        return {
            "polyplink": __version__,
            "command": self.command,
            "settings": to_plain(self.settings),
            "seed": self.seed,
            "inputs": self.inputs,
            "machine": machine(),
            "started": self.started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }

    @contextmanager
    def results(self, folder: Path, optional: Sequence[str] = ()) -> Iterator[Path]:
        """Yield a folder for files that change in `folder` together with run.json.

        Args:
            folder: The output folder of the run.
            optional: See `change_folder`.
        """
        with change_folder(folder, optional) as new:
            yield new
            self.write(new)

    def write(self, folder: Path) -> None:
        """Write `folder`/run.json."""
        write_json(folder / "run.json", self.as_dict())
