"""Shared by all verbs: common options, progress callbacks, printable results.

A verb is a function `verb(request, progress)`. Its request is a frozen dataclass whose fields are
the arguments and options of the command line: type, default, help text and range are in the field
and nowhere else (`app.command_line` builds the commands from them).
"""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

from typer import Argument, Option, echo

from polyplink.core.artefacts import read_json, to_plain
from polyplink.core.errors import PolyplinkError, visible

if TYPE_CHECKING:
    from polyplink.tracklets import PrepareSettings

RECIPE = "Name of a recipe (ntssl, sfe, tpc, ...), or FILE.py:NAME of one of your own."
Data = Annotated[Path, Argument(help="Data folder that `polyplink import` wrote.")]
Weights = Annotated[
    Path, Argument(help="Weights: a file, a folder of `train` or `export`, or a name.")
]
Out = Annotated[Path, Option("--out", "-o", help="Folder to write.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
Workers = Annotated[int, Option(min=1, help="Worker processes or threads.")]
Part = Annotated[str | None, Option(help="Part of the data set; all by default.")]
Alarms = Annotated[
    Literal["drop", "keep"],
    Option(help="Leave out tracklets that the weights take for false alarms, or count them."),
]
Purpose = Annotated[
    Literal["count", "link", "published"],
    Option(
        help="Link for the right number of polyps, few wrong links, or an FPR near 0.05 (the "
        "papers' rule)."
    ),
]
Sets = Annotated[Sequence[str], Option("--set", help="Change a field of the recipe: NAME=VALUE.")]


def names_of(module: str, attribute: str) -> Callable[[str], list[str]]:
    """A completion for the shell: names in a table of a module, which is imported when asked for.

    Args:
        module: The module.
        attribute: A mapping by name or a sequence of names in it, or a function that gives one.
    """

    def complete(incomplete: str) -> list[str]:
        table = getattr(import_module(module), attribute)
        names = table() if callable(table) else table
        return [str(name) for name in names if str(name).startswith(incomplete)]

    return complete


RECIPES = names_of("polyplink.recipes", "RECIPES")


Value = TypeVar("Value")


def option(
    text: str,
    default: Value = None,  # type: ignore[assignment]
    *names: str,
    kind: Callable[..., Any] = Option,
    **settings: Any,
) -> Value:
    """A field of a request with a default: an option of the command line, or an argument.

    Args:
        text: Its help.
        default: From Python and on the command line; with False the option takes no --no-NAME.
        names: On the command line; the field's by default.
        kind: `typer.Option` or `typer.Argument`.
        settings: Of `kind`: min, max, metavar and others.
    """
    made: Value = field(
        default=default, metadata={"names": names, "kind": kind, "help": text} | settings
    )
    return made


class Request:
    """A request: text is taken where a field is a path."""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            hint, value = each.type, getattr(self, each.name)
            plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
            kinds = (plain, *get_args(plain))
            if isinstance(value, str) and Path in kinds:
                object.__setattr__(self, each.name, Path(value))
            elif not isinstance(value, str | Path) and Sequence[Path] in kinds:
                object.__setattr__(self, each.name, tuple(map(Path, value)))


@dataclass(frozen=True, kw_only=True)
class TrackletOptions(Request):
    """How boxes become tracklets; what is not given is as the weights or the recipe say.

    The fields are those of `polyplink.tracklets.PrepareSettings` and its `tracks`.
    """

    min_length: int | None = option("Boxes that a tracklet of a known polyp must have [30].", min=1)
    max_gap: int | None = option("Largest step in frames between its boxes [1].", min=1)
    min_iou: float | None = option("Smallest IoU of two boxes in a row of it [0.1].", min=0, max=1)
    min_seconds: float | None = option("Seconds a track of unknown boxes must last [0.5].", min=0)
    bridge: float | None = option("Longest gap bridged within such a track, seconds [0.7].", min=0)
    high: float | None = option("Score from which a box begins a track [0.4].", min=0, max=1)
    low: float | None = option("Score from which a box continues one [0.1].", min=0, max=1)
    tracker: str | None = option("What links such boxes: damped, or a plugin's [damped].")
    stride: int | None = option("Boxes from one crop of a tracklet to the next [4].", min=1)

    def on(self, settings: "PrepareSettings") -> "PrepareSettings":
        """The settings with what was given in place of their own.

        Raises:
            PolyplinkError: If there is no such tracker.
        """
        if self.tracker is not None:  # even if no box needs it
            from polyplink.tracklets.tracks import find_tracker

            find_tracker(self.tracker)
        given = {each.name: getattr(self, each.name) for each in fields(TrackletOptions)}
        given = {name: value for name, value in given.items() if value is not None}
        tracks = {
            name: given.pop(name) for name in ("bridge", "high", "low", "tracker") if name in given
        }
        return replace(settings, **given, tracks=replace(settings.tracks, **tracks))


def check_given(
    weights: Path | None = None,
    data: Path | None = None,
    parts: Sequence[str | None] = (),
    device: str | None = None,
    truth: Path | None = None,
) -> None:
    """Refuse what is not there, before a verb imports torch, which takes seconds.

    Args:
        weights: File, folder or name.
        data: Data folder.
        parts: Parts of it.
        device: Name of a device; whether the device is there, the verb finds out itself.
        truth: Another data folder.

    Raises:
        PolyplinkError: If one of them is missing or malformed.
    """
    if weights is not None:
        from polyplink.encoders import read_record, weights_path

        read_record(weights_path(weights))
    if device is not None:
        from polyplink.encoders import check_device

        check_device(device)
    from polyplink.data import check_folder, read_data

    if truth is not None:
        check_folder(truth)
    if data is not None:
        check_folder(data)
        splits = data / "splits.json"
        known = read_json(splits) if splits.is_file() else {}
        for part in parts:
            if part not in (None, "all", *known):
                read_data(data).part(part)


WIDEST = 2000  # characters of a line of a table in a file
LONGEST_REPR = 400  # characters of a value in the repr of its result

Progress = Callable[[str, int, int], None]
"""Callback of a verb, called with (stage, done, total)."""


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


def inform(stage: str, done: int, total: int) -> None:
    """The progress of verbs called from Python: bars in a notebook, nothing elsewhere."""
    if "ipykernel" in sys.modules:
        from polyplink.report.notebook import CELL_BARS

        CELL_BARS(stage, done, total)


def counter(progress: Progress, stage: str) -> Callable[[int, int], None]:
    """The callback (done, total) of one stage, as the other rooms take it."""
    return partial(progress, stage)


@dataclass(frozen=True)
class Result(Generic[Value]):
    """Result of a verb; the command line prints it and exits with its code.

    Attributes:
        value: The Python value.
        json: JSON-ready values for `--json`; by default the value's own.
        shown: For people: text, and tables of rich.
        warnings: For stderr.
        code: Exit code of the process.
    """

    value: Value
    json: Any = None
    shown: Sequence[Any] = ()
    warnings: Sequence[str] = ()
    code: int = 0

    def __repr__(self) -> str:
        text = textwrap.shorten(repr(self.value), LONGEST_REPR, placeholder=" ...")
        return f"Result({text}, {len(self.warnings)} warnings, code={self.code})"

    def _repr_html_(self) -> str:
        from polyplink.report.notebook import result_html

        return result_html(self.value, self.shown, self.warnings)

    def print_json(self) -> None:
        """Print one line of JSON."""
        echo(json.dumps(to_plain(self.value if self.json is None else self.json)))

    def print_text(self) -> None:
        """Print for people."""
        for item in self.shown:
            if isinstance(item, str):
                echo(visible(item))
            else:
                _print_table(item)


def _print_table(table: Any) -> None:
    """Print a table of rich; what its cells hold is neither markup nor obeyed by the terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def render(self, *given: Any, **named: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*given, **named):
                yield Segment(text if control else visible(text), style, control)

    wide = None if sys.stdout.isatty() else WIDEST  # a file or a pipe gets whole cells
    Plain(markup=False, width=wide).print(table)


def named_files(option: str, pairs: Sequence[str]) -> dict[str, Path]:
    """Files by name, from the NAME=FILE values of a repeated option.

    Raises:
        PolyplinkError: If a value has no "=".

    Example:
        >>> named_files("--weights", ["ntssl=run/weights.safetensors"])
        {'ntssl': PosixPath('run/weights.safetensors')}
    """
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        PolyplinkError.unless(bool(equals), f"{option} {pair!r} names no file", "write NAME=FILE")
        found[name] = Path(path)
    return found
