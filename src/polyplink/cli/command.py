"""The command line, built from verbs: annotated functions, those here and those of packages.

Every parameter of a verb that is annotated with `typer.Option` or `typer.Argument` becomes one of
its command; the first line of its docstring becomes the help, and `--json` and `--debug` are
added. Other parameters can be set only from Python. A verb is imported when its command is looked
up, and verbs import the heavy rooms inside their functions, so that `polyplink VERB --help` does
not import torch.
"""

import copy
import inspect
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from operator import or_
from pathlib import Path
from threading import current_thread, main_thread
from typing import Annotated, Any, ForwardRef, NoReturn, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.models import ArgumentInfo

from polyplink import __version__
from polyplink.cli.verb import (
    Verb,
    details_of,
    members_of,
    parameters_of,
    sections_of,
    terminal_bars,
)
from polyplink.core.errors import (
    LONGEST_MESSAGE,
    MISTAKE,
    PolyplinkError,
    find_named,
    first_line,
    one_line,
    one_line_errors,
)
from polyplink.core.parts import SECTIONS, VERBS
from polyplink.core.results import check_several
from polyplink.models.shipped import ENCODER

GROUPS = {
    "index": "An index of views, to search for similar ones",
    "recipes": "Recipes, and where the values of their fields come from",
    "weights": "Encoders by name",
}
LONGEST_SUMMARY = 200  # characters of a verb's sentence in the list of verbs
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def sections() -> dict[str, list[str]]:
    """Names of verbs by section of `polyplink --help`; plugins' verbs are in the last section.

    "weights add" is the verb `add` of the group weights.
    """
    names = {title: list(verbs) for title, verbs in SECTIONS.items()}
    names[list(names)[-1]] += [name for name in VERBS.names() if name not in VERBS]
    return names


class Verbs(TyperGroup):
    """Verbs as commands, each imported and built when it is looked up.

    Args:
        group: Name of the group whose verbs they are, or "" for the whole command line.
        settings: Of `TyperGroup`.
    """

    def __init__(self, *, group: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._prefix = f"{group} " if group else ""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands and groups."""
        verbs = [verb for verb in VERBS.names() if verb.startswith(self._prefix)]
        return _first_words(verb.removeprefix(self._prefix) for verb in verbs)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command or group by name; None if there is none."""
        verb, group = self._prefix + cmd_name, f"{self._prefix}{cmd_name} "
        names = [*VERBS]
        if not any(name == verb or name.startswith(group) for name in names):
            names = VERBS.names()  # of packages, too: reading them takes a third of the time
        if verb in names:
            return build_command(verb)
        if any(name.startswith(group) for name in names):
            return _build_group(cmd_name, verb)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command in some words, the command, and the words after it."""
        name, *remaining_args = args
        command = self.get_command(ctx, name)
        if command is None and not ctx.resilient_parsing:  # as in shell completion
            find_named("command", name, dict.fromkeys(self.list_commands(ctx)))
        return name, command, remaining_args

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by section, each with its help in full.

        A package's verb that cannot be imported or built is left out.
        """
        names = self.list_commands(ctx)
        width = max(map(len, names))
        listed = {"Commands": names} if self._prefix else sections()
        for title, verbs in listed.items():
            summaries = {}
            for name in _first_words(verbs):
                with suppress(PolyplinkError):
                    summary = self.get_command(ctx, name).get_short_help_str(LONGEST_SUMMARY)
                    summaries[name.ljust(width)] = summary
            with formatter.section(title):
                formatter.write_dl([*summaries.items()])


class VerbCommand(TyperCommand):
    """A verb as a command. In its help, options of a typed dictionary have their own section."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each with its help."""
        sections: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            title = "Arguments" if parameter.param_type_name == "argument" else "Options"
            title = getattr(parameter, "rich_help_panel", None) or title
            sections.setdefault(title, []).append(parameter.get_help_record(ctx))
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl([record for record in records if record])


def _first_words(names: Iterable[str]) -> list[str]:
    """First words of names of verbs, each once: verbs, and groups of verbs."""
    return [*dict.fromkeys(name.partition(" ")[0] for name in names)]


def build_command(name: str) -> Any:
    """Build the command of a verb.

    Args:
        name: The verb; "weights add" is `add` of the group weights.

    Raises:
        PolyplinkError: If a package's verb cannot be imported, or its parameters make no command.
    """
    verb = VERBS.find(name)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    summary = (inspect.getdoc(verb) or "").partition("\n")[0]
    try:
        single.command(name.rpartition(" ")[2], cls=VerbCommand, help=summary)(command(verb))
        return get_command(single)
    except Exception as error:
        if isinstance(error, PolyplinkError):
            what, hint = error.what, error.hint
        else:  # typer's, of a type that it cannot convert an argument to
            what, hint = first_line(error), "correct its parameters, see `polyplink.cli.options`"
        raise PolyplinkError(f"verb {name!r} cannot be a command: {what}", hint) from error


def _build_group(name: str, group: str) -> Verbs:
    """Build a group of verbs, such as `weights`."""
    verbs = Verbs(group=group, name=name, no_args_is_help=True, rich_markup_mode=None)
    members = ", ".join(verbs.list_commands(None))
    verbs.help = f"{GROUPS.get(group, group.capitalize())}: {members}."
    return verbs


class CommandLine(Verbs):
    """The whole command line: calling it ends the process, and every error is one line."""

    def main(self, args: Sequence[str] | None = None, *extra: Any, **settings: Any) -> NoReturn:
        """Run a command line, that of the process by default, and exit with its code."""
        arguments = sys.argv[1:] if args is None else args
        with one_line_errors():
            try:
                code = super().main(arguments, *extra, **settings | {"standalone_mode": False})
                sys.stdout.flush()  # here, where the errors of a full or closed output are caught
            except Exception as error:
                _refuse_usage(error, arguments)
                raise
            except SystemExit as error:
                closed_pipe = isinstance(error.__context__, BrokenPipeError)
                if closed_pipe and error.code == 1:  # the code that typer ends with
                    sys.exit(0)
                raise
            finally:
                _forget_unwritable_output()
        sys.exit(code)


def _refuse_usage(error: Exception, arguments: Sequence[str]) -> None:
    """Refuse a mistake in options and arguments that typer reports.

    Args:
        error: Any error; the classes of typer's are private.
        arguments: The command line.
    """
    from polyplink.data.files.folders import is_video

    message = getattr(error, "format_message", None)
    if message is None:
        return
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without its verb
        print(message(), file=sys.stderr)
        sys.exit(MISTAKE)
    context: Any = getattr(error, "ctx", None)
    page = getattr(context, "command_path", "polyplink")
    text = " ".join(message().split()).rstrip(".").replace("Value error, ", "")
    if text.startswith("Got unexpected extra argument"):
        if sum(is_video(word) for word in arguments) > 1:
            text += "; list the files of one recording in a playlist (.m3u), and name this"
        else:
            has_out = any("--out" in parameter.opts for parameter in context.command.params)
            out_hint = "name the output folder with --out, or " if has_out else ""
            text += f"; {out_hint}put a name that has spaces in quotes"
    if type(error).__name__ == "MissingParameter" and context is not None:
        text = missing_argument(context, arguments[page.count(" ") :]) or text
    if getattr(error, "option_name", None) in ("-o", "--out") and context is not None:
        names = [argument.metavar for argument in _arguments_of(context)]
        if "OUT" in names:  # unlike in most commands
            text = f"OUT is an argument here: type `{page} {' '.join(names)}`"
        elif any(parameter.name == "index" for parameter in context.command.params):
            text = "the output folder is --index here"
    raise PolyplinkError(text, f"see `{page} --help`") from None


def _forget_unwritable_output() -> None:
    """Discard output that cannot be written: Python would fail on it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command(verb: Verb) -> Callable[..., None]:
    """Wrap a verb in a function with the signature that typer builds a command from.

    Args:
        verb: A function; progress bars are passed to its parameter `progress`, if it has one.

    Raises:
        PolyplinkError: If a parameter has neither a default nor an annotation for the command line.
    """
    parameters, list_names = [], []
    section_of = sections_of(verb)
    for parameter in parameters_of(verb):
        details = details_of(parameter.annotation)
        if not details:  # for Python alone
            if parameter.default is parameter.empty and parameter.name != "progress":
                raise PolyplinkError(
                    f"its parameter {parameter.name!r} has no default, and no annotation of typer",
                    "annotate it with typer.Argument or typer.Option, in a file without `from "
                    "__future__ import annotations`",
                )
            continue
        declared, default = copy.copy(details[0]), parameter.default
        declared.rich_help_panel = section_of.get(parameter.name)
        kind = _typer_type(get_args(parameter.annotation)[0])
        if get_origin(kind) is list:
            list_names.append(parameter.name)
            if default is not inspect.Parameter.empty:
                kind, default = kind | None, None
        if isinstance(declared, ArgumentInfo):
            # In capitals in help and messages, as in the docs.
            declared.metavar = declared.metavar or parameter.name.upper()
        elif default is False and not declared.param_decls:  # without --no-NAME
            declared.param_decls = (f"--{parameter.name.replace('_', '-')}",)
        parameters.append(
            inspect.Parameter(
                parameter.name, _KEYWORD, default=default, annotation=Annotated[kind, declared]
            )
        )
    return _run(verb, parameters, list_names)


def _typer_type(kind: Any) -> Any:
    """The type that typer converts an argument to, from the annotation for Python callers.

    Example:
        >>> _typer_type(str | Path | None)
        pathlib.Path | None
        >>> _typer_type(str | Sequence[str | Path])
        list[pathlib.Path]
    """
    if isinstance(kind, str | ForwardRef):  # it takes more from Python than can be typed
        return str
    kinds = members_of(kind)
    for member in kinds:
        if get_origin(member) is Sequence:
            return list[_typer_type(get_args(member)[0])]  # type: ignore[misc]
    if Path in kinds:
        kinds = tuple(member for member in kinds if member is not str)
    return reduce(or_, kinds)


def _run(
    verb: Verb, parameters: list[inspect.Parameter], list_names: Sequence[str]
) -> Callable[..., None]:
    """Build the function that a command calls, with the signature that typer reads."""
    shows_progress = "progress" in inspect.signature(verb).parameters

    def run(typer_context: typer.Context, as_json: bool, debug: bool, **values: Any) -> None:
        with one_line_errors(typer_context.command_path, debug=debug):
            values |= {name: tuple(values[name] or ()) for name in list_names}
            _check_paths(values.values())
            with announced_interrupt(), terminal_bars() as progress:
                result = verb(**values, **({"progress": progress} if shows_progress else {}))
            if not hasattr(result, "print_text"):
                raise PolyplinkError(
                    f"the verb `{typer_context.command_path}` returns {type(result).__name__}",
                    "return a polyplink.core.results.Result",
                )
            check_several("warnings of a Result", result.warnings)
            for warning in result.warnings:
                typer.echo(f"warning: {one_line(warning, LONGEST_MESSAGE)}", err=True)
            (result.print_json if as_json else result.print_text)()
        if result.code:
            raise typer.Exit(result.code)

    json_option = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
    debug_option = Annotated[bool, typer.Option("--debug", help="Print the trace of an error.")]
    parameters += [
        inspect.Parameter("typer_context", _KEYWORD, annotation=typer.Context),
        inspect.Parameter("as_json", _KEYWORD, default=False, annotation=json_option),
        inspect.Parameter("debug", _KEYWORD, default=False, annotation=debug_option),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _check_paths(values: Iterable[Any]) -> None:
    """Refuse a path that is not UTF-8: tables and records could not name it."""
    for value in values:
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path):
                absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute fails without a folder
                plain = absolute.encode("utf-8", "replace").decode() == absolute
                if not plain:
                    raise PolyplinkError(f"the path {absolute} is not UTF-8", "rename it")


@contextmanager
def announced_interrupt() -> Iterator[None]:
    """Answer the first Ctrl-C at once: threads and files may take seconds to end."""
    interrupted = []

    def announce(*_: object) -> None:
        interrupted.append(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(OSError):
            os.write(2, b"\npolyplink: stopping ...\n")  # print may be interrupted itself
        raise KeyboardInterrupt

    handler = signal.default_int_handler
    # A shell may have the program ignore Ctrl-C, and a thread other than the first cannot answer.
    announces = signal.getsignal(signal.SIGINT) is handler and current_thread() is main_thread()
    if announces:
        signal.signal(signal.SIGINT, announce)
    try:
        yield
    except Exception as error:
        if interrupted:  # a library that was called back in the meantime failed instead
            raise KeyboardInterrupt from error
        raise
    finally:
        if announces:
            signal.signal(signal.SIGINT, handler)


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


def _arguments_of(context: Any) -> list[Any]:
    """The parameters of a command that are arguments and no options."""
    parameters = context.command.params
    return [parameter for parameter in parameters if parameter.param_type_name == "argument"]


def missing_argument(context: Any, typed_words: Sequence[str]) -> str:
    """Name the arguments that a command line lacks, and the line to type; "" if it lacks none.

    Args:
        context: The command, as the library below passes it on with its error.
        typed_words: What was typed after the name of the command.
    """
    values, *_ = context.command.make_parser(context).parse_args(list(typed_words))
    arguments = _arguments_of(context)
    typed_values: list[str] = []
    for argument in arguments:  # the last one takes its word before a list in front of it
        value = values.get(argument.name)
        if isinstance(value, str):
            typed_values.append(value)
        elif isinstance(value, tuple):
            typed_values += value
    names = [argument.metavar for argument in arguments if argument.required]
    missing_names = names[len(typed_values) :]
    if not missing_names:
        return ""
    hint = video_hint(typed_values)
    if hint:
        return f"{' and '.join(missing_names)} missing{hint}"
    line = [*map(shlex.quote, typed_values), *missing_names]
    if typed_values and missing_names == ["DATA"]:
        from polyplink.data.tables import is_data_folder

        if is_data_folder(Path(typed_values[-1])):  # and so the argument before it is missing
            missing_names = [names[len(typed_values) - 1]]
            value = ENCODER if missing_names == ["WEIGHTS"] else missing_names[0]
            line[-2:] = [value, line[-2]]
    command_line = " ".join([context.command_path, *line])
    return f"{' and '.join(missing_names)} missing: type `{command_line}`"


def video_hint(values: Iterable[object]) -> str:
    """Hint at `polyplink run` if a command that takes no video got one, or "".

    Example:
        >>> video_hint(["case7.mp4"])
        '; a video is counted by `polyplink run case7.mp4`'
    """
    from polyplink.data.files.folders import is_video

    videos = [name for name in map(str, values) if is_video(name)]
    return f"; a video is counted by `polyplink run {shlex.quote(videos[0])}`" if videos else ""


_application = typer.Typer(
    cls=CommandLine,
    name="polyplink",
    help="One identity for every polyp of a colonoscopy. Not a medical device.",
    callback=_root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # a coloured help page would take twice as long
)
app: Any = get_command(_application)
