"""The command line, built from the requests of the verbs: those here, and those of packages.

For every verb in `VERBS` the fields of its request that are options or arguments become those of
its command, the first line of its docstring becomes the help, and `--json` and `--debug` are added.
Other fields can be set only from Python. Verb modules import the heavy rooms inside their
functions, so that `polyplink VERB --help` does not import torch.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, ForwardRef, get_args, get_origin

import typer
from typer.core import TyperGroup
from typer.models import ArgumentInfo

from polyplink import __version__
from polyplink.cli.calibrate import calibrate
from polyplink.cli.count import count
from polyplink.cli.data_folder import (
    convert_data,
    doctor,
    import_data,
    merge_data,
    prepare_data,
    split_data,
)
from polyplink.cli.detect import detect_polyps, run
from polyplink.cli.evaluate import evaluate
from polyplink.cli.export import embed_data, export
from polyplink.cli.figures import draw
from polyplink.cli.index import add_to_index, build_index, search
from polyplink.cli.listings import list_plugins, list_recipes, show_recipe
from polyplink.cli.live import live
from polyplink.cli.one_line import LONGEST_MESSAGE, one_line_errors
from polyplink.cli.probe import probe
from polyplink.cli.review import hand_off_review, learn_from, review
from polyplink.cli.shipped import show_models
from polyplink.cli.train import train
from polyplink.cli.train_detector import evaluate_detector, train_detector
from polyplink.cli.weights import (
    adapt_weights,
    add_weights,
    cost_weights,
    list_weights,
    save_weights_folder,
    show_weights,
)
from polyplink.core.errors import PolyplinkError, one_line
from polyplink.core.parts import VERB_TABLES
from polyplink.core.progress import Progress

Verb = Callable[..., Any]  # (request, progress) -> a Result, or what has its methods and fields

BUILT_IN: Mapping[str, Mapping[str, Verb]] = {
    "Count a recording": {
        "run": run,
        "detect": detect_polyps,
        "count": count,
        "review": review,
        "hand-off": hand_off_review,
    },
    "Your data": {
        "import": import_data,
        "merge": merge_data,
        "doctor": doctor,
        "split": split_data,
        "convert": convert_data,
        "prepare": prepare_data,
    },
    "Train": {
        "train": train,
        "calibrate": calibrate,
        "learn-from": learn_from,
        "train-detector": train_detector,
        "recipes list": list_recipes,
        "recipes show": show_recipe,
        "weights add": add_weights,
        "weights save": save_weights_folder,
        "weights adapt": adapt_weights,
        "weights list": list_weights,
        "weights show": show_weights,
        "weights cost": cost_weights,
        "models": show_models,
    },
    "Evaluate": {
        "evaluate": evaluate,
        "evaluate-detector": evaluate_detector,
        "probe": probe,
        "figures": draw,
    },
    "Serve": {
        "live": live,
        "embed": embed_data,
        "index build": build_index,
        "index add": add_to_index,
        "search": search,
        "export": export,
    },
    "Research": {
        "plugins": list_plugins,
    },
}


def with_packages(built_in: Mapping[str, Mapping[str, Verb]]) -> dict[str, dict[str, Verb]]:
    """Sections of verbs with those of installed packages, which come first in their section.

    They replace none that is built in. A package that cannot be imported is left out, so that the
    other verbs work; `polyplink plugins` says why it cannot.
    """
    names = {name for verbs in built_in.values() for name in verbs}
    sections: dict[str, dict[str, Verb]] = {title: {} for title in built_in}
    for package in VERB_TABLES.installed():
        with suppress(PolyplinkError):
            for title, verbs in VERB_TABLES.find(package).items():
                added = {name: verb for name, verb in verbs.items() if name not in names}
                sections.setdefault(title, {}).update(added)
                names.update(added)
    for title, verbs in built_in.items():
        sections[title].update(verbs)
    return sections


SECTIONS = with_packages(BUILT_IN)
"""Verbs by name, as `--help` lists them; "weights add" is the verb `add` of the group weights."""
VERBS = {name: verb for verbs in SECTIONS.values() for name, verb in verbs.items()}

GROUPS = {
    "index": "An index of views, to search for similar ones",
    "recipes": "Recipes, and where the values of their fields come from",
    "weights": "Encoders by name",
}
LONGEST_SUMMARY = 200  # characters of a verb's sentence in the list of verbs
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class InSections(TyperGroup):
    """Lists verbs as `SECTIONS` does, a group's as one section, each with its whole sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        sections = SECTIONS if ctx.parent is None else {"Commands": self.commands}
        width = max(map(len, self.commands))
        for title, verbs in sections.items():
            names = dict.fromkeys(name.partition(" ")[0] for name in verbs)
            summaries = {
                name.ljust(width): self.commands[name].get_short_help_str(LONGEST_SUMMARY)
                for name in names
            }
            with formatter.section(title):
                formatter.write_dl([*summaries.items()])


def command(verb: Verb) -> Callable[..., None]:
    """A function with the signature that typer builds a command from.

    Args:
        verb: Called with (request, progress); the annotation of `request` is its dataclass.
    """
    request = inspect.signature(verb).parameters["request"].annotation
    parameters, several = [], []
    declared = {item.name: dict(item.metadata) for item in fields(request)}
    for field in inspect.signature(request).parameters.values():
        plain, default, settings = field.annotation, field.default, declared[field.name]
        if settings:
            names, kind = settings.pop("names"), settings.pop("kind")
            flag = (f"--{field.name.replace('_', '-')}",) if default is False else ()
            details = [kind(*(names or flag), **settings)]
        elif get_origin(plain) is Annotated:
            plain, *details = get_args(plain)
        else:
            continue
        # From Python one is taken as well as several.
        plain = next((kind for kind in get_args(plain) if get_origin(kind) is Sequence), plain)
        if get_origin(plain) is Sequence:  # a list, None if it is not given
            several.append(field.name)
            plain = list[get_args(plain)[0]]  # type: ignore[misc]
            if default is not inspect.Parameter.empty:
                plain, default = plain | None, None
        elif isinstance(plain, ForwardRef):  # it takes more from Python than can be typed
            plain = str
        for annotation in details:  # in capitals in help and messages, as in the docs
            if isinstance(annotation, ArgumentInfo) and annotation.metavar is None:
                annotation.metavar = field.name.upper()
        option: Any = Annotated[plain, *details]
        parameters.append(
            inspect.Parameter(field.name, _KEYWORD, default=default, annotation=option)
        )

    def run(as_json: bool, debug: bool, **values: Any) -> None:
        with one_line_errors(" ".join(["polyplink", *sys.argv[1:2]]), debug=debug):
            values |= {name: tuple(values[name] or ()) for name in several}
            _check_paths(values.values())
            with bars() as progress:
                result = verb(request(**values), progress)
            for warning in result.warnings:
                typer.echo(f"warning: {one_line(warning, LONGEST_MESSAGE)}", err=True)
            (result.print_json if as_json else result.print_text)()
        if result.code:
            raise typer.Exit(result.code)

    json_option = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
    parameters.append(inspect.Parameter("as_json", _KEYWORD, default=False, annotation=json_option))
    debug_option = Annotated[bool, typer.Option("--debug", help="Print the trace of an error.")]
    parameters.append(inspect.Parameter("debug", _KEYWORD, default=False, annotation=debug_option))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _check_paths(values: Iterable[Any]) -> None:
    """Refuse a path that is not UTF-8, in which no table and no record can name it."""
    for value in values:
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path):
                absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute fails without a folder
                plain = absolute.encode("utf-8", "replace").decode() == absolute
                PolyplinkError.unless(plain, f"the path {absolute} is not UTF-8", "rename it")


@contextmanager
def bars() -> Iterator[Progress]:
    """Progress bars on stderr, one per stage, started with the first tick."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress as Bars,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<28}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bars = Bars(*columns, console=Console(stderr=True))
    tasks: dict[str, Any] = {}

    def tick(stage: str, done: int, total: int) -> None:
        if not tasks:
            bars.start()  # not earlier: empty bars leave a blank line before an error
        if stage not in tasks:
            tasks[stage] = bars.add_task(one_line(stage, 80), total=total, speed="")
        task = bars.tasks[tasks[stage]]
        speed = "" if task.speed is None else f"{task.speed:.0f}/s"
        bars.update(tasks[stage], completed=done, total=total, speed=speed)

    try:
        yield tick
    finally:
        if tasks:
            bars.stop()


def _version(show_version: bool) -> None:
    if show_version:
        typer.echo(f"polyplink {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def build(verbs: Mapping[str, Verb]) -> typer.Typer:
    """The application with a command for every verb."""
    application = typer.Typer(
        cls=InSections,
        help="One identity for every polyp of a colonoscopy. Not a medical device.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # a coloured help page would take twice as long
        callback=_root,
    )
    groups: dict[str, typer.Typer] = {}
    for name, verb in verbs.items():
        group, _, last = name.rpartition(" ")
        if group and group not in groups:
            members = (name.split()[-1] for name in verbs if name.startswith(f"{group} "))
            about = f"{GROUPS.get(group, group.capitalize())}: {', '.join(members)}."
            groups[group] = typer.Typer(cls=InSections, help=about, no_args_is_help=True)
            application.add_typer(groups[group], name=group)
        first_line = (inspect.getdoc(verb) or "").partition("\n")[0]
        (groups[group] if group else application).command(last, help=first_line)(command(verb))
    return application


app = build(VERBS)
