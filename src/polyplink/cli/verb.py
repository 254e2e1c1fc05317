"""What all verbs share: the decorator of their functions, their progress bars, common results.

Example:
    @verb
    def count(weights: options.Weights, *, progress: Progress = inform) -> Result[Count]: ...
"""

import importlib
import inspect
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from html import escape
from os import PathLike, fspath
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from typer.models import ArgumentInfo, OptionInfo

from polyplink.core.errors import PolyplinkError, closest, escape_control, find_named, one_line
from polyplink.core.results import Progress, Result, silent

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet

Verb = Callable[..., Any]  # returns a `Result`, or an object with its methods and fields
P = ParamSpec("P")
R = TypeVar("R")

UNMEASURED = (
    "no figure could be measured: the notes count the data, and `polyplink doctor` lists options "
    "that give more tracklets"
)
EVERY = 0.2  # seconds between two updates of the bars in a notebook
LINE_EVERY = 30.0  # seconds between two lines of progress in a log file
LONGEST_VALUE = 80  # characters of a value in a message


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a verb for Python callers: choices and ranges are checked as in a command.

    The signature has the plain types of the parameters and every option by name, so that `help`
    can be read and an unknown option is a TypeError. The docstring gets the help of the options
    that it does not describe. One text where several may be given is a sequence of one.

    Args:
        function: A function whose parameters are annotated for the command line.

    Returns:
        The function. It raises PolyplinkError for a value that is not among those of a Literal, or
        is outside the range of its option, and TypeError for a text that is to be a number or True
        or False, or the reverse, for a fraction that is to be a whole number, and for what is
        neither a path nor a list of texts, or no function, where one is needed.
    """
    declared = list(parameters_of(function))
    plain = [parameter.replace(annotation=_plain(parameter.annotation)) for parameter in declared]
    signature = inspect.signature(function).replace(parameters=plain)
    annotations = {parameter.name: parameter.annotation for parameter in declared}

    @wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            hint = _suggestion(options, declared)
            raise TypeError(f"{function.__name__}() {error}{hint}") from None
        for name, value in bound.arguments.items():
            bound.arguments[name] = _check_value(name, value, annotations[name])
        return function(*bound.args, **bound.kwargs)

    checked.__signature__ = signature  # type: ignore[attr-defined]
    checked.__doc__ = _document(function, declared)
    return checked


def _suggestion(options: Mapping[str, Any], parameters: Sequence[inspect.Parameter]) -> str:
    """A hint at the parameter that is meant by an unknown one; empty without a similar name.

    The names of a command's options count too, where they differ: `--as` is `name`.
    """
    names: dict[str, str] = {}
    for parameter in parameters:
        for detail in details_of(parameter.annotation):
            # Typer reads the first positional argument of Option as its default.
            for option in filter(None, (detail.default, *(detail.param_decls or ()))):
                names[str(option).lstrip("-").replace("-", "_")] = parameter.name
    names |= {parameter.name: parameter.name for parameter in parameters}
    for option in options:
        similar_name = closest(option.rstrip("_"), names)
        if option not in names.values() and similar_name:
            return f"; did you mean {names[similar_name]}?"
    return ""


def _document(function: Verb, parameters: Sequence[inspect.Parameter]) -> str:
    """The docstring of a verb, with all parameters: as it describes them, or by their help."""
    sections = re.compile(r"(.*?)(?:\n\nArgs:\n(.*?))?(\n\n(?:Returns|Raises|Example):.*)?", re.S)
    match = sections.fullmatch(inspect.getdoc(function) or "")
    assert match is not None
    summary, described, further = match.groups("")
    texts = {
        entry.partition(":")[0].strip(): entry for entry in re.split(r"\n(?=    \w)", described)
    }
    for parameter in parameters:
        for detail in details_of(parameter.annotation):
            entry = f"{parameter.name}: {detail.help}"
            filled = textwrap.fill(entry, 100, initial_indent=" " * 4, subsequent_indent=" " * 8)
            texts.setdefault(parameter.name, filled)
    entries = [texts[parameter.name] for parameter in parameters if parameter.name in texts]
    return "\n".join([f"{summary}\n\nArgs:", *entries]) + further if entries else summary + further


def details_of(annotation: Any) -> list[OptionInfo | ArgumentInfo]:
    """What an annotation says of an option or argument: its help, range and names."""
    details = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return [detail for detail in details if isinstance(detail, OptionInfo | ArgumentInfo)]


def parameters_of(function: Verb) -> Iterator[inspect.Parameter]:
    """Parameters of a verb as it was defined, with their annotations for the command line.

    A typed dictionary of options becomes one parameter for each field.
    """
    for parameter in inspect.signature(inspect.unwrap(function)).parameters.values():
        options = _typed_dictionary(parameter)
        if options is None:
            yield parameter
            continue
        for name, annotation in get_type_hints(options, include_extras=True).items():
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(name, kind, default=None, annotation=annotation)


def _typed_dictionary(parameter: inspect.Parameter) -> Any:
    """The typed dictionary of options that a parameter unpacks; None if it is another parameter.

    Raises:
        PolyplinkError: If a parameter takes any options.
    """
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
        return None
    if get_origin(parameter.annotation) is not Unpack:
        raise PolyplinkError(
            f"its parameter **{parameter.name} names no options",
            "annotate it with typing.Unpack of a TypedDict, or leave it out",
        )
    (options,) = get_args(parameter.annotation)
    return options


def sections_of(function: Verb) -> dict[str, str]:
    """Titles of the sections of a verb's help, by option.

    The options of a typed dictionary have a section: its title is the first line of its docstring.
    Without a docstring they are among the others.
    """
    titles: dict[str, str] = {}
    for parameter in inspect.signature(inspect.unwrap(function)).parameters.values():
        options = _typed_dictionary(parameter)
        if options is not None:
            text = (options.__doc__ or "").strip()  # getdoc would give that of dict
            title = text.partition("\n")[0].rstrip(".")
            titles |= dict.fromkeys(get_type_hints(options), title)
    return titles


def members_of(kind: Any) -> tuple[Any, ...]:
    """The members of a union of types, or the type alone."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _plain(annotation: Any) -> Any:
    """An annotation for the command line as Python callers read it.

    Example:
        >>> _plain(Annotated["str | Recipe", "help"]), _plain(Annotated[int, "help"]), _plain(bool)
        ('str | Recipe', <class 'int'>, <class 'bool'>)
    """
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return kind.__forward_arg__ if isinstance(kind, ForwardRef) else kind


def _check_value(name: str, value: Any, annotation: Any) -> Any:
    """A value for a parameter, or a sequence of it; refused if the command line would refuse it."""
    kinds = members_of(
        get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    )
    if isinstance(value, PathLike) and str in kinds and Path not in kinds:
        value = fspath(value)
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy, which JSON does not take
    _check_type(name, value, kinds)
    for member in kinds:
        if get_origin(member) is Literal and value is not None:
            find_named(name, str(value), {choice: choice for choice in get_args(member)})
        elif get_origin(member) is Sequence and isinstance(value, str) and str not in kinds:
            return (value,)
    for detail in details_of(annotation):
        if isinstance(value, int | float):
            low, high = detail.min, detail.max
            if low is not None and not value >= low:
                raise PolyplinkError(f"{name} is {value}", f"give {low:g} or more")
            if high is not None and not value <= high:
                raise PolyplinkError(f"{name} is {value}", f"give {high:g} or less")
    return value


_EXPECTED = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}


def _check_type(name: str, value: Any, kinds: tuple[Any, ...]) -> None:
    """Refuse a value of another type than a parameter takes, where the command would refuse it.

    A text is no number or switch (otherwise "no" would switch an option on), and the reverse; a
    fraction or a switch is no whole number. Other classes are checked by the verb.
    """
    if value is None and type(None) in kinds:
        return
    expected = _expected_type([kind for kind in kinds if kind is not type(None)], value)
    if expected:
        raise TypeError(f"{name} is {one_line(repr(value), LONGEST_VALUE)}; give {expected}")


def _expected_type(kinds: Sequence[Any], value: Any) -> str:
    """What a parameter of these kinds needs instead of a value; empty if the value fits."""
    if any(get_origin(kind) is Callable for kind in kinds):
        return "" if callable(value) else "a function"

    # A path or a text, or several of them; or several numbers.
    sequences = [kind for kind in kinds if get_origin(kind) is Sequence]
    if set(kinds) - set(sequences) <= {str, Path} and (sequences or Path in kinds):
        if isinstance(value, str | PathLike):
            return ""
        if not sequences:
            return "a path"
        of_texts = set(members_of(get_args(sequences[0])[0])) <= {str, Path}
        fits = isinstance(value, Iterable) and not isinstance(value, Mapping)  # which has keys
        if fits and of_texts and isinstance(value, list | tuple):
            fits = all(isinstance(item, str | PathLike) for item in value)
        return "" if fits else f"a list of {'texts' if of_texts else 'numbers'}"

    # A single text, number or switch.
    if not set(kinds) <= set(_EXPECTED):
        return ""
    is_wrong = isinstance(value, str) != (str in kinds)
    is_wrong |= list(kinds) == [int] and isinstance(value, bool | float)
    return _EXPECTED[kinds[0]] if is_wrong else ""


def inform(stage: str, done: int, total: int) -> None:
    """Progress of verbs called from Python: bars in a notebook, nothing elsewhere."""
    if "ipykernel" in sys.modules:
        _CELL_BARS(stage, done, total)


def prints_lines(progress: Progress) -> bool:
    """Whether a verb prints lines of its progress: it is a command, and no terminal shows bars."""
    return progress not in (silent, inform) and not sys.stderr.isatty()


@contextmanager
def terminal_bars() -> Iterator[Progress]:
    """Progress bars on stderr, one per stage, started with the first tick; in a file, lines."""
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
    # A bar for each stage, when it begins.
    bars = Bars(*columns, console=Console(stderr=True))
    tasks: dict[str, Any] = {}
    printed = time.monotonic()

    def tick(stage: str, done: int, total: int) -> None:
        nonlocal printed
        if not tasks:
            bars.start()  # not earlier: empty bars leave a blank line before an error
        if stage not in tasks:
            tasks[stage] = bars.add_task(one_line(stage, 80), total=total, speed="")
        task = bars.tasks[tasks[stage]]
        if task.finished and done < task.completed:  # the stage begins again
            bars.reset(task.id, total=total)
        speed = "" if task.speed is None else f"{task.speed:.0f}/s"
        bars.update(tasks[stage], completed=done, total=total, speed=speed)
        if not sys.stderr.isatty() and time.monotonic() - printed >= LINE_EVERY:
            printed = time.monotonic()
            remaining = timedelta(seconds=int(task.time_remaining or 0))
            counts = (
                f"{done} of {total}, {speed}, {remaining} left" if speed else f"{done} of {total}"
            )
            print(f"{one_line(stage, 80)}: {counts}", file=sys.stderr, flush=True)

    try:
        yield tick
    finally:
        if tasks:
            bars.stop()


class CellBars:
    """Progress bars of a cell of a notebook, one per stage: one block of HTML, updated in place."""

    def __init__(self) -> None:
        self._cell = -1
        self._stages: dict[str, tuple[int, int]] = {}
        self._display: Any = None
        self._last = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Update the bar of a stage; a new cell begins a new block."""
        ipython: Any = importlib.import_module("IPython")
        shell = ipython.get_ipython()
        if shell is None:
            return
        if shell.execution_count != self._cell:
            self._cell, self._stages, self._display = shell.execution_count, {}, None
        waits = stage in self._stages and done < total and time.monotonic() - self._last < EVERY
        self._stages[stage] = (done, total)
        if waits:
            return
        self._last = time.monotonic()
        bars = [_bar(name, *counts) for name, counts in self._stages.items()]
        block = ipython.display.HTML("".join(bars))
        if self._display is None:
            self._display = ipython.display.display(block, display_id=True)
        else:
            self._display.update(block)


def _bar(stage: str, done: int, total: int) -> str:
    bar = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
    return f"<div>{bar} {escape(escape_control(stage))} {done} of {total}</div>"


_CELL_BARS = CellBars()


def written_data(out: Path, data: "DataSet", warnings: Sequence[str]) -> "Result[DataSet]":
    """Result of a verb that wrote a data folder.

    Args:
        out: The folder.
        data: Its tables.
        warnings: Warnings of the verb.
    """
    counts = {
        "out": str(out),
        "procedures": data.procedures.height,
        "polyps": data.polyps.height,
        "boxes": data.detections.height,
        "warnings": warnings,
        "splits": {name: len(ids) for name, ids in data.splits.items()},
    }
    return Result(data, counts, [f"{out}: {data.contents}"], warnings)
