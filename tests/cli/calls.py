"""Calling the command line in a test."""

import functools
from pathlib import Path

import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from polyplink.cli.command import app

# The runner would build all verbs anew for every call.
typer.testing._get_command = functools.cache(get_command)  # type: ignore[attr-defined]


def polyplink(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def assert_refused(result: Result, says: str) -> None:
    """One line on stderr that names the thing, exit code 2, nothing on stdout, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("polyplink: ")]
    assert says in line
    assert "; " in line  # the way to mend it
    assert "Traceback" not in result.stderr
