"""The entry of the command: mistakes on the command line are one line too."""

import subprocess
import sys

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
