"""What every verb shares: the application, its options, guards and progress bars."""

import errno
import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer
from typer.core import TyperGroup

from polyplink import __version__
from polyplink.core.errors import INTERRUPTED, MISTAKE, PolyplinkError

if TYPE_CHECKING:
    from polyplink.jobs import Progress

P = ParamSpec("P")
R = TypeVar("R")

VERBS = (
    "demo",
    "simulate",
    "import",
    "merge",
    "doctor",
    "prepare",
    "train",
    "export",
    "embed",
    "count",
    "evaluate",
)


class Verbs(TyperGroup):
    """The verbs in the order in which they are used, not in that of their files."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the verbs, those of the way first."""
        rest = [name for name in self.commands if name not in VERBS]
        return [*(name for name in VERBS if name in self.commands), *rest]


app = typer.Typer(
    cls=Verbs,
    help="One identity for every polyp of a colonoscopy. Not a medical device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # a coloured help page would take twice as long to come
)


Data = Annotated[Path, typer.Argument(help="Data folder that `polyplink import` wrote.")]
Weights = Annotated[Path, typer.Argument(help="Weights file, or a folder `polyplink train` wrote.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Change a field of the recipe: NAME=VALUE.")
]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes or threads.")]


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"polyplink: {message}", err=True)
    raise typer.Exit(code)


def _disk(error: OSError) -> str:
    where = f" at {error.filename}" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full{where}; free some space and give the same command again"
    return f"{error.strerror or error}{where}; check the path and its permissions"


def guarded(verb: Callable[P, R]) -> Callable[P, R]:
    """A user's mistake becomes one line and exit code 2; Ctrl-C becomes 130."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except PolyplinkError as error:
            _stop(str(error), MISTAKE)
        except KeyboardInterrupt:
            _stop("interrupted; what was finished is kept", INTERRUPTED)
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except OSError as error:
            _stop(_disk(error), MISTAKE)

    return run


@contextmanager
def bars() -> Iterator["Progress"]:
    """Progress bars on stderr, one per stage, each with its total."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bars = Bars(*columns, console=Console(stderr=True))
    tasks: dict[str, Any] = {}

    def tick(stage: str, done: int, total: int) -> None:
        if not tasks:
            bars.start()  # here: bars of nothing leave a blank line before an error
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=total)
        bars.update(tasks[stage], completed=done, total=total)

    try:
        yield tick
    finally:
        if tasks:
            bars.stop()


def say(result: dict[str, Any], text: str, as_json: bool) -> None:
    """Print a result: as one line of JSON, or as text."""
    typer.echo(json.dumps(result) if as_json else text)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"polyplink {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def named_files(option: str, pairs: list[str] | None) -> dict[str, Path]:
    """Files by name, from NAME=FILE given to an option any number of times.

    Raises:
        PolyplinkError: If one of them has no "=".
    """
    found = {}
    for pair in pairs or []:
        name, equals, path = pair.partition("=")
        PolyplinkError.unless(bool(equals), f"{option} {pair!r} names no file", "write NAME=FILE")
        found[name] = Path(path)
    return found
