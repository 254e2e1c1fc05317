"""Runs commands and Python code in processes forked from one that has imported the libraries.

A new process for every `polyplink` command of a page would import them again, which takes longer
than most commands. Forked processes do not test the start of the program;
tests/cli/test_command_line.py does.
"""

import atexit
import contextlib
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polyplink
import polyplink_lab

SHIM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as to:
    to.connect({address!r})
    job = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ)}}
    socket.send_fds(to, [json.dumps(job).encode()], [0, 1, 2])
    sys.exit(int(to.recv(9) or {killed}))
"""
MOST = 1 << 20  # maximum size of a job, bytes
KILLED = 137  # exit code of a process that ended without one, as shells give it after SIGKILL


def _import_libraries() -> None:
    """Import the packages and their lazy imports, so that a forked process imports little."""
    from polyplink.core.lazy_torch import timm  # noqa: PLC0415

    modules = ["sklearn.cluster", "sklearn.linear_model"]
    for package in (polyplink, polyplink_lab):
        submodules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        modules += [module.name for module in submodules]
    for name in modules:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    timm()


class Forked:
    """Runs commands in forked processes; see `forked`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, code: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """Run a bash script in which every `polyplink` is forked.

        Args:
            code: The script; it ends at the first failing line.
            cwd: Working directory.
        """
        return self._run(["bash", "-ex", "-c", code], cwd)

    def python(self, code: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """Run Python code as `python -c` does."""
        return self._run([str(self.folder / "polyplink"), CODE, code], cwd)

    def _run(self, command: Sequence[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
        path = f"{self.folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}"
        return subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "PATH": path + os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )


CODE = "--python"  # followed by Python code to run instead of the command line


@contextlib.contextmanager
def forked(folder: Path) -> Iterator[Forked]:
    """Start the process from which commands are forked; it ends with the context.

    Args:
        folder: A new folder, for the socket and a program called `polyplink`. Its path must be
            short, because the path of a socket is limited to about 100 characters.
    """
    address = str(folder / "socket")
    shim = folder / "polyplink"
    shim.write_text(SHIM.format(python=sys.executable, address=address, killed=KILLED))
    shim.chmod(0o755)
    command = [sys.executable, "-m", "tests.forked", address]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        try:
            yield Forked(folder)
        finally:
            server.stdin.close()


def _child(job: Mapping[str, Any]) -> int:
    """Run a job as the program would, and return its exit code."""
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.path.insert(0, "")
    arguments = job["arguments"]
    try:
        if arguments[:1] == [CODE]:
            sys.argv = ["-c"]
            exec(compile(arguments[1], "<string>", "exec"), vars(sys.modules["__main__"]))
        else:
            sys.argv = ["polyplink", *arguments]
            importlib.import_module("polyplink.__main__").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _serve(address: str) -> None:
    _import_libraries()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([server, sys.stdin], [], [])[0]):
            assert ready
            connection, _ = server.accept()
            if os.fork():
                connection.close()
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            message, streams, *_ = socket.recv_fds(connection, MOST, 3)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            sys.stdin = os.fdopen(0, closefd=False)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
            code = _child(json.loads(message))
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            connection.send(str(code).encode())
            os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
