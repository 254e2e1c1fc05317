"""The command line, built from the requests of the verbs.

For every verb in `VERBS` the fields of its request become arguments and options, the first line of
its docstring the short help, and `--json` is added. Verb modules import the heavy rooms inside
their functions, so that `polyplink VERB --help` does not import torch.
"""

import errno
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn, get_args, get_origin

import typer
from typer.core import TyperGroup

from polyplink import __version__
from polyplink.app.bench import bench
from polyplink.app.doctor import doctor
from polyplink.app.import_data import import_data, merge_data
from polyplink.app.prepare import prepare_data
from polyplink.app.request import Progress, Result
from polyplink.app.simulate import simulate
from polyplink.core.errors import INTERRUPTED, MISTAKE, PolyplinkError

VERBS: Mapping[str, Callable[..., Result]] = {
    "simulate": simulate,
    "import": import_data,
    "merge": merge_data,
    "doctor": doctor,
    "prepare": prepare_data,
    "bench": bench,
}
"""Verbs by name, in the order of `--help`; "weights add" is the verb `add` of the group weights."""

GROUPS = {"weights": "Encoders of others: add, list, show, cost."}

ORDER = (
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
    """The verbs in the order in which they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the verbs."""
        rest = [name for name in self.commands if name not in ORDER]
        return [*(name for name in ORDER if name in self.commands), *rest]


def command(verb: Callable[..., Result]) -> Callable[..., None]:
    """A function with the signature that typer builds a command from.

    Args:
        verb: Called with (request, progress); the annotation of `request` is its dataclass.
    """
    request = inspect.signature(verb).parameters["request"].annotation
    fields = inspect.signature(request).parameters
    several = [name for name, field in fields.items() if _item(field.annotation) is not None]

    def run(as_json: bool, **given: Any) -> None:
        with one_line_errors():
            given |= {name: tuple(given[name] or ()) for name in several}
            with bars() as progress:
                result = verb(request(**given), progress)
            for warning in result.warned():
                typer.echo(f"warning: {warning}", err=True)
            (result.print_json if as_json else result.print_text)()
            if code := result.exit_code():
                raise typer.Exit(code)

    as_json = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")],
    )
    parameters = [_parameter(field) for field in fields.values()]
    run.__signature__ = inspect.Signature([*parameters, as_json])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [*parameters, as_json]}
    return run


def _item(annotation: Any) -> type | None:
    """The item type of `Annotated[Sequence[item], ...]`; None for any other annotation."""
    plain = get_args(annotation)[0]
    return get_args(plain)[0] if get_origin(plain) is Sequence else None


def _parameter(field: inspect.Parameter) -> inspect.Parameter:
    """A field as typer knows it: a sequence is a list that may be left out."""
    item = _item(field.annotation)
    if item is None:
        return field.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    required = field.default is inspect.Parameter.empty
    several: Any = list[item] if required else list[item] | None  # type: ignore[valid-type]
    return field.replace(
        kind=inspect.Parameter.KEYWORD_ONLY,
        default=field.default if required else None,
        annotation=Annotated[several, *field.annotation.__metadata__],
    )


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a user's mistake into one line and exit code 2, and Ctrl-C into exit code 130."""
    try:
        yield
    except PolyplinkError as error:
        _stop(str(error), MISTAKE)
    except KeyboardInterrupt:
        _stop("interrupted; what was finished is kept", INTERRUPTED)
    except BrokenPipeError:
        raise typer.Exit(0) from None
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _stop(f"the disk is full{where}; free space and run the command again", MISTAKE)
        _stop(f"{error.strerror or error}{where}; check the path and its permissions", MISTAKE)


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"polyplink: {message}", err=True)
    raise typer.Exit(code) from None


@contextmanager
def bars() -> Iterator[Progress]:
    """Progress bars on stderr, one per stage, started with the first tick."""
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
            bars.start()  # not earlier: empty bars leave a blank line before an error
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=total)
        bars.update(tasks[stage], completed=done, total=total)

    try:
        yield tick
    finally:
        if tasks:
            bars.stop()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"polyplink {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def build(verbs: Mapping[str, Callable[..., Result]]) -> typer.Typer:
    """The application with a command for every verb."""
    application = typer.Typer(
        cls=Verbs,
        help="One identity for every polyp of a colonoscopy. Not a medical device.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # a coloured help page would take twice as long
        callback=_root,
    )
    groups: dict[str, typer.Typer] = {}
    for name, verb in verbs.items():
        group, _, last = name.rpartition(" ")
        if group and group not in groups:
            groups[group] = typer.Typer(help=GROUPS[group], no_args_is_help=True)
            application.add_typer(groups[group], name=group)
        first_line = (inspect.getdoc(verb) or "").partition("\n")[0]
        (groups[group] if group else application).command(last, help=first_line)(command(verb))
    return application


app = build(VERBS)
