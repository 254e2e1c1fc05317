"""The entry of the command: mistakes on the command line are one line too."""

import subprocess
import sys
from pathlib import Path

import pytest


def polyplink(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polyplink", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("improt",), "No such command 'improt'"),
        (("simulate", "x", "--workers", "0"), "--workers"),
        (("simulate", "x", "--seed", "y"), "--seed"),
        (("train",), "recipe"),
        (("count", "a", "b", "--frob"), "--frob"),
        (("doctor", "nowhere"), "no folder nowhere"),
    ],
)
def test_one_line_and_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = polyplink(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("polyplink: ")
    assert says in line


def test_no_arguments_are_a_question() -> None:
    done = polyplink()
    assert done.returncode == 0
    assert "Commands:" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "polyplink", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("polyplink: No space left")


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    command = [sys.executable, "-m", "polyplink", "bench", "startup", "--json"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait() == 0
