"""Names that the verbs not yet moved to `app` share."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from polyplink.app.command_line import app, bars, one_line_errors
from polyplink.app.request import named_files

__all__ = ["app", "bars", "guarded", "named_files", "say"]

P = ParamSpec("P")
R = TypeVar("R")

Data = Annotated[Path, typer.Argument(help="Data folder that `polyplink import` wrote.")]
Weights = Annotated[Path, typer.Argument(help="Weights file, or a folder `polyplink train` wrote.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Change a field of the recipe: NAME=VALUE.")
]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes or threads.")]


def guarded(verb: Callable[P, R]) -> Callable[P, R]:
    """A user's mistake becomes one line and exit code 2; Ctrl-C becomes 130."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_line_errors():
            return verb(*args, **kwargs)
        raise AssertionError

    return run


def say(result: dict[str, Any], text: str, as_json: bool) -> None:
    """Print a result: as one line of JSON, or as text."""
    typer.echo(json.dumps(result) if as_json else text)
