"""Calling the command line in a test."""

import json
from pathlib import Path
from typing import Any

import typer.testing
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from polyplink.cli.command import app

# The runner expects a typer application; polyplink's is a click group that is already built.
typer.testing._get_command = lambda group: group  # type: ignore[attr-defined, assignment, return-value]


def invoke(group: TyperGroup, *arguments: str | Path, stdin: str | None = None) -> Result:
    """Call a group of commands, or one command.

    Args:
        group: The built group or command.
        arguments: Arguments of the command line.
        stdin: Text for standard input.
    """
    command: Any = group
    return CliRunner().invoke(command, [str(argument) for argument in arguments], input=stdin)


def polyplink(*arguments: str | Path) -> Result:
    return invoke(app, *arguments)


def succeed(*arguments: str | Path) -> Result:
    """Call the command line, and check for exit code 0."""
    result = polyplink(*arguments)
    assert result.exit_code == 0, result.output
    return result


def printed_json(*arguments: str | Path) -> Any:
    """Call the command line with `--json`, and return what it prints."""
    return json.loads(succeed(*arguments, "--json").stdout)


def assert_refused(result: Result, message: str) -> None:
    """Check for exit code 2, one message on stderr that contains `message`, and no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("polyplink: ")]
    assert message in line
    assert "; " in line  # separates the problem from its remedy
    assert "Traceback" not in result.stderr
