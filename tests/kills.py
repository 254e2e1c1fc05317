"""Runs commands in processes that kill themselves (SIGKILL) at a chosen file event.

A file event is an opening for writing, a renaming, a removal or a new folder below one folder. The
processes are forked from one that has imported the command line, so that a kill takes a fraction
of a second.
"""

import contextlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.forked import import_libraries

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}


class Killer:
    """Runs commands that are killed; see `killer`.

    Attributes:
        events: Number of file events of the last command that was not killed.
    """

    def __init__(self, server: "subprocess.Popen[str]") -> None:
        self.server = server
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
        job = {"arguments": [*map(str, arguments)], "below": str(below), "event": event}
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        print(json.dumps(job), file=self.server.stdin, flush=True)
        answer = json.loads(self.server.stdout.readline())
        assert answer["code"] in (0, -9), answer["output"]
        self.events = answer.get("events", self.events)
        return int(answer["code"])

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
    command = [sys.executable, "-m", "tests.kills"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield Killer(server)
        assert server.stdin is not None
        server.stdin.close()


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


def _child(job: dict[str, Any], report: int) -> None:
    app = importlib.import_module("polyplink.cli.command").app
    time.perf_counter = lambda: 0.0  # so that files do not contain run times
    output, code = io.StringIO(), 3
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        events = _kill_at(job["below"], job["event"])
        try:
            if job["arguments"][0] == "answer":  # what `review` does on an answer
                desk = importlib.import_module("polyplink.serve.desk").Desk(
                    *map(Path, job["arguments"][1:])
                )
                code = int(not desk.correct(0, {"kind": "same", "a": 0, "b": 1}))
            else:
                app(job["arguments"])
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
    answer = {"code": code, "output": output.getvalue()[-3000:], "events": events[0]}
    os.write(report, json.dumps(answer).encode())
    os._exit(code)


def _serve() -> None:
    import_libraries()
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(json.loads(line), write)
        os.close(write)
        with os.fdopen(read) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"output": ""} | json.loads(answer or "{}") | {"code": code}), flush=True)


if __name__ == "__main__":
    _serve()
