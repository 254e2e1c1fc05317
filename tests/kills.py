"""Runs commands in processes that kill themselves (SIGKILL) at a chosen file event.

A file event is an opening for writing, a renaming, a removal or a new folder below one folder. The
processes are forked (see `tests.forked`), so that a kill takes a fraction of a second.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from tests.forked import KILLED, Forked, forked

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}


class Killer:
    """Runs commands that are killed; see `killer`.

    Attributes:
        events: Number of file events of the last command that was not killed.
    """

    def __init__(self, processes: Forked) -> None:
        self.processes = processes
        self.events = 0

    def run(self, *arguments: str | Path, below: Path, event: int = 0) -> int:
        """Run a command line and kill it at a file event.

        Args:
            arguments: Arguments of `polyplink`.
            below: Folder in which file events are counted.
            event: The number of the event, from 1; 0: the command is not killed.

        Returns:
            The exit code, -9 if it was killed.
        """
        job = ([*map(str, arguments)], str(below), event)
        ended = self.processes.python(f"from tests.kills import run; run{job!r}", Path.cwd())
        if ended.returncode == KILLED:
            return -9
        assert ended.returncode == 0, ended.stdout + ended.stderr
        self.events = int(ended.stdout.splitlines()[-1])
        return 0

    def at_events(
        self, *arguments: str | Path, below: Path, events: Iterable[int]
    ) -> Iterator[int]:
        """Run a command repeatedly, killed at one event after the other, and finally to its end.

        Args:
            arguments: Arguments of `polyplink`.
            below: Folder in which file events are counted.
            events: Numbers of the events, from 1. The first run that is not killed is the last.

        Yields:
            The number of the event, after each kill.
        """
        for event in events:
            if not self.run(*arguments, below=below, event=event):
                return
            yield event
        self.run(*arguments, below=below)


def spread(events: int, most: int) -> list[int]:
    """At most `most` of the events 1 to `events`, evenly spaced from the first to the last."""
    most = min(most, events)
    return sorted({round(1 + (events - 1) * k / max(most - 1, 1)) for k in range(most)})


@contextlib.contextmanager
def killer() -> Iterator[Killer]:
    """Start the process from which the commands are forked."""
    with TemporaryDirectory() as folder, forked(Path(folder)) as processes:
        yield Killer(processes)


def contents(folder: Path) -> dict[str, Any]:
    """The contents of a folder's files by name, without run times and temporary files."""
    files: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        # A report contains its date and the seconds of its stages, a spreadsheet its date.
        is_temporary = path.suffix == ".lock" or ".part" in name  # left by a killed process
        if is_temporary or not path.is_file() or path.name in ("report.html", "polyps.xlsx"):
            continue
        files[name] = path.read_bytes()
        if path.name in ("run.json", "review.json"):
            record = json.loads(files[name])
            files[name] = {k: v for k, v in record.items() if k not in _TIMES}
    return files


_TIMES = ("started", "finished", "seconds", "written")


def _kill_at(below: str, event: int) -> list[int]:
    """Count file events from now on, and kill this process at event number `event` (0: never)."""
    count = [0]

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        writes = name in _EVENTS or (name == "open" and bool(arguments[2] & _WRITES))
        if writes and os.fsdecode(arguments[0]).startswith(below):
            count[0] += 1
            if count[0] == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


def run(arguments: list[str], below: str, event: int) -> NoReturn:
    """Run a command line in this process, which is killed at a file event; see `Killer.run`.

    The last line that it prints is the number of file events.
    """
    app = importlib.import_module("polyplink.cli.command").app
    time.perf_counter = lambda: 0.0  # so that files do not contain run times
    events, code = _kill_at(below, event), 0
    if arguments[0] == "answer":  # what `review` does on an answer
        desk = importlib.import_module("polyplink.serve.desk").Desk(*map(Path, arguments[1:]))
        code = int(not desk.correct(0, {"kind": "same", "a": 0, "b": 1}))
    else:
        try:
            app(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    print(events[0])
    sys.exit(code)
