"""Calling the command line in a test."""

from pathlib import Path
from typing import Any

import typer.testing
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from polyplink.cli.command import app

# The runner expects an application of typer; polyplink's is a group that is built already.
typer.testing._get_command = lambda group: group  # type: ignore[attr-defined, assignment, return-value]


def invoke(group: TyperGroup, *arguments: str | Path, typed: str | None = None) -> Result:
    """Call a group of commands, or one command.

    Args:
        group: Built.
        arguments: Words of the command line.
        typed: What is typed while it runs.
    """
    built: Any = group
    return CliRunner().invoke(built, [str(argument) for argument in arguments], input=typed)


def polyplink(*arguments: str | Path) -> Result:
    return invoke(app, *arguments)


def assert_refused(result: Result, says: str) -> None:
    """One line on stderr that names the thing, exit code 2, nothing on stdout, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("polyplink: ")]
    assert says in line
    assert "; " in line  # the way to mend it
    assert "Traceback" not in result.stderr
