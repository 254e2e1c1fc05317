"""Worker processes ignore Ctrl-C and end with their parent."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.workers import as_done, worker_pool


def _kill_self(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_imported(name: str) -> bool:
    return name in sys.modules


def test_workers_have_preloaded_modules_and_a_killed_worker_is_reported() -> None:
    handler, children = signal.getsignal(signal.SIGINT), multiprocessing.active_children()
    with worker_pool(1, ["numba"]) as pool:
        assert pool.submit(is_imported, "numba").result()
        assert pool.submit(os.getpid).result() != os.getpid()
    assert set(multiprocessing.active_children()) <= set(children)
    assert signal.getsignal(signal.SIGINT) is handler
    with (
        pytest.raises(PolyplinkError, match="a worker process was killed"),
        worker_pool(1, ["numba"]) as pool,
    ):
        list(pool.map(_kill_self, [1]))


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_prints_no_traceback(tmp_path: Path) -> None:
    """As from a terminal, the whole process group gets the signal, while workers import modules."""
    command = [sys.executable, "-m", "polyplink", "simulate", "out", "--preset", "tiny"]
    # A script's background process ignores Ctrl-C, and so do its children.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*command, "--workers", "2"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, handler)
    key = tmp_path / "out" / "simulation" / "key.json"
    while process.poll() is None and not key.is_file():
        time.sleep(0.05)
    time.sleep(0.5)  # the pool is starting or has just started
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "polyplink: interrupted" in errors
    assert not list(tmp_path.rglob("*.part"))


def test_a_script_that_starts_workers_on_import_gets_a_hint(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from polyplink.core.workers import as_done\nprint(*as_done(abs, [-1, -2], 2))\n"
    )
    for arguments, stdin in (([script], ""), (["-"], script.read_text())):
        result = subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 1
        assert "if __name__ == '__main__':" in result.stderr.splitlines()[-1]


def test_as_done_yields_every_result_or_raises() -> None:
    for workers in (1, 2):
        assert sorted(as_done(math.sqrt, [0, 1, 4, 9, 16, 25], workers)) == [0, 1, 2, 3, 4, 5]
        with pytest.raises(ValueError):
            list(as_done(math.sqrt, [-1, 4], workers))
    assert list(as_done(math.sqrt, [], 2)) == []
