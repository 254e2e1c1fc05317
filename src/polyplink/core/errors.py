"""Errors, each of which becomes one line and an exit code: mistakes of users, faults of programs.

A mistake that a user can fix is a `PolyplinkError`; `one_line_errors` prints it and all others.
"""

import errno
import logging
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from polyplink.core.entry_points import package_of, plugin_entries

Named = TypeVar("Named")

MISTAKE, UNEXPECTED, INTERRUPTED = 2, 3, 130  # exit codes
# What libraries say where memory is short: the loader, threads, torch, and C++.
NO_MEMORY = (
    "failed to map segment",
    "can't start new thread",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
)
LONGEST_PART = 400  # characters of either part of a message
LONGEST_MESSAGE = 1200  # characters of a printed error or warning
PART = "_polyplink_part"  # attribute of an exception: the part that was running
USER_FILE = "_polyplink_file"  # global of a module imported from a file of the user's: its path
EXTRAS = {
    "encoders": ("llvmlite", "numba", "sklearn", "timm", "torch", "torchvision"),
    "foundation": ("peft", "transformers"),
    "export": ("onnx", "onnxscript", "openvino"),
    "detect": ("onnxruntime",),
    "serve": ("anyio", "h11", "starlette", "uvicorn", "xlsxwriter"),
    "scale": ("lancedb", "pyarrow", "ray"),
    "train": ("lightning_fabric",),
    "log": ("tensorboard", "wandb"),
    "bench": ("torchmetrics", "trackeval"),
}
"""Modules by the extra that installs them."""

# Control characters except the newline and the tab, separators of lines, controls of the writing
# direction, and halves of surrogate pairs.
CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN = re.compile(f"[{CONTROL}\\ud800-\\udfff]")


def escape_control(text: str) -> str:
    r"""Write control characters as escapes, so that no terminal obeys them.

    Example:
        >>> print(escape_control("a\x1b[31m"))
        a\x1b[31m
    """
    return _HIDDEN.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str, longest: int) -> str:
    """A text on one line; the middle is cut out if it is longer than `longest` characters."""
    plain = escape_control(" ".join(text.split()) if re.search(r"[\t\r\n]", text) else text)
    half = (longest - 5) // 2
    return plain if len(plain) <= longest else f"{plain[:half]} ... {plain[-half:]}"


def first_line(error: BaseException) -> str:
    """The first line of an error message of another library or, without its number, the system."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return (text or type(error).__name__).splitlines()[0]


def system_error(error: OSError) -> str:
    """A system error about a file as one line: what is wrong, where, and how to fix it.

    Example:
        >>> system_error(PermissionError(13, "Permission denied", "count/report.html"))
        'Permission denied at count/report.html; check the path and its permissions'
    """
    name = error.filename2 or error.filename  # the second: where a copy or a new name was written
    at_file = f" at {name}" if name else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full{at_file}; free space and run the command again"
    if error.errno == errno.EISDIR and name:
        return f"{name} is a folder; name a file"
    problem = error.strerror or "".join(map(str, error.args[:1])) or type(error).__name__
    return f"{problem}{at_file}; check the path and its permissions"


class PolyplinkError(Exception):
    """A mistake in the input, not in the program.

    The command line prints it as one line on stderr, without a traceback, and ends with exit
    code 2. The message has two parts, so that every error says how to fix it; each becomes one
    line of at most 400 characters, with control characters as escapes.

    Args:
        what: The thing that is wrong, by name (a path, a column and row, a procedure).
        hint: How to fix it.

    Example:
        >>> print(PolyplinkError("data/procedures.parquet is missing", "run `polyplink import`"))
        data/procedures.parquet is missing; run `polyplink import`
    """

    def __init__(self, what: str, hint: str) -> None:
        self.what = one_line(what, LONGEST_PART)
        self.hint = one_line(hint, LONGEST_PART)
        super().__init__(f"{self.what}; {self.hint}")

    def _render_traceback_(self) -> list[str]:
        """In a notebook the message alone; `%debug` still enters the stack."""
        return [f"{type(self).__name__}: {self}"]

    def __reduce__(self) -> tuple[type["PolyplinkError"], tuple[str, str]]:
        """Pickle both parts of the message, for errors in worker processes."""
        return type(self), (self.what, self.hint)


class ImportOptionError(PolyplinkError):
    """A source does not say what an option of `polyplink import` can; `hint` names the option."""


def warn_remade(path: Path) -> None:
    """Warn on stderr that a file of an earlier run does not fit and is made again."""
    warn(f"{path} is damaged or of other tracklets; it is made again")


def warn(text: str) -> None:
    """Warn on stderr, in one line, about what a command does by itself."""
    text = one_line(text, 2 * LONGEST_PART)
    logging.getLogger("polyplink").warning("warning: %s", text)


def find_named(kind: str, name: str, choices: Mapping[str, Named]) -> Named:
    """Look up a name that a user gave.

    Args:
        kind: Kind of name ("recipe"), for the message.
        name: The name.
        choices: All valid names and their values.

    Raises:
        PolyplinkError: If the name is unknown; the message suggests the closest name, or lists all.
    """
    if name in choices:
        return choices[name]
    near = closest(name, choices)
    hint = f"did you mean {near}?" if near else f"choose one of: {', '.join(choices)}"
    raise PolyplinkError(f"no {kind} {name!r}", hint)


def closest(name: str, choices: Iterable[str]) -> str | None:
    """The valid name that is most like an unknown one, ignoring case; None if none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415  # 4 ms that only a mistake needs

    by_folded = {choice.casefold(): choice for choice in choices}
    matches = get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[matches[0]] if matches else None


@contextmanager
def extras_installed(purpose: str = "this") -> Iterator[None]:
    """Turn the ImportError of a library of an extra into a message; other errors pass.

    Args:
        purpose: What needs the library, for the message.

    Raises:
        PolyplinkError: If a library of an extra is not installed; names the library and the
            command that installs it.

    Example:
        >>> with extras_installed("a spreadsheet"):
        ...     raise ModuleNotFoundError("No module named 'xlsxwriter'", name="xlsxwriter")
        Traceback (most recent call last):
        polyplink.core.errors.PolyplinkError: a spreadsheet needs xlsxwriter, which is not
        installed; pip install "polyplink[serve]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = next((name for name, modules in EXTRAS.items() if module in modules), None)
        if extra is None:
            raise
        raise PolyplinkError(
            f"{purpose} needs {module}, which is not installed", f'pip install "polyplink[{extra}]"'
        ) from None


@contextmanager
def one_line_errors(command: str = "polyplink", *, debug: bool = False) -> Iterator[None]:
    """Turn every exception into one line on stderr and an exit code.

    The exit code is 2 for a user's mistake, 130 for Ctrl-C, and 3 for any unexpected exception. An
    exception of a part that is not built in (see `Registry.running`) is a fault of this part,
    whatever its type: it says nothing of polyplink's files and output, nor does it end the command.

    Args:
        command: The command, for the message.
        debug: Also print the traceback.

    Raises:
        SystemExit: In place of the exception, with the exit code.
    """
    try:
        try:
            with extras_installed(command):
                yield
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            of_part = bool(_part_of(error))
            if debug and (of_part or not isinstance(error, SystemExit)):
                traceback.print_exc()
            if of_part and not isinstance(error, MemoryError):
                _stop(_fault(error, command), UNEXPECTED)
            raise
    except PolyplinkError as error:
        _stop(str(error), MISTAKE)
    except KeyboardInterrupt:
        _stop("interrupted; finished results are kept", INTERRUPTED)
    except BrokenPipeError:  # the reader closed the pipe, as in `polyplink ... | head`
        sys.exit(0)
    except Exception as error:
        if _lacks_memory(error):
            hint = "close other programs, or give fewer --workers"
            _stop(f"there is not enough memory; {hint}", MISTAKE)
        if isinstance(error, OSError):
            _stop(system_error(error), MISTAKE)
        _stop(_fault(error, command), UNEXPECTED)


def _lacks_memory(error: Exception) -> bool:
    """Whether an exception of Python or a library says that the system gives no more memory."""
    return isinstance(error, MemoryError) or any(text in str(error).lower() for text in NO_MEMORY)


def _stop(message: str, code: int) -> NoReturn:
    print(f"polyplink: {one_line(message, LONGEST_MESSAGE)}", file=sys.stderr)
    raise SystemExit(code) from None


def _fault(error: BaseException, command: str) -> str:
    """Write the traceback of a fault of a program to a file; describe the exception in a line.

    Args:
        error: The exception, with its traceback.
        command: The command that was running.

    Returns:
        The command, the file it was working on, the exception, whose fault it is (polyplink's, or
        that of the plugin whose code raised it, with the line), and the file with the traceback.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    on_path = ""  # a path among the locals of the innermost function that has one
    for frame, _ in frames:
        if frame.f_globals.get("__name__", "").startswith("polyplink"):
            paths = [value for value in frame.f_locals.values() if isinstance(value, Path)]
            on_path = f" on {paths[-1]}" if paths else on_path
    trace = "".join(traceback.format_exception(error))
    try:
        handle, name = tempfile.mkstemp(prefix="polyplink-", suffix=".txt")
        with os.fdopen(handle, "wb") as file:
            file.write(trace.encode("utf-8", "backslashreplace"))
        hint = f"the trace is in {name}"
    except OSError:
        hint = "--debug shows the trace"
    plugin, line = _plugin_of(frames)
    at_fault = " of ".join(filter(None, (_part_of(error), plugin))) or "polyplink"
    summary = f"`{command}` failed{on_path}: {type(error).__name__}: {first_line(error)}"
    remedy = "correct" if at_fault.endswith((".py", "'")) else "report"  # no package
    return (
        f"{one_line(summary, 2 * LONGEST_PART)}; "
        f"this is a fault of {at_fault}{line}: {remedy} it, {hint}"
    )


def _part_of(error: BaseException) -> str:
    """The part that raised an exception, or the one that Python makes of a StopIteration."""
    raised = error.__cause__ if isinstance(error.__cause__, StopIteration) else error
    return str(vars(raised).get(PART, ""))


def _plugin_of(frames: Sequence[tuple[FrameType, int]]) -> tuple[str, str]:
    """The package or file of a plugin that raised an error in these frames; empty for polyplink.

    Returns:
        The package or file, and where in it: " (line 7)", of a package " (margin.py, line 7)".
    """
    packages = {entry.module.partition(".")[0]: package_of(entry) for entry in plugin_entries()}
    plugin, location = "", ""
    for frame, number in frames:
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        if module == "polyplink":
            plugin, location = "", ""
        elif module in packages:
            file = Path(frame.f_code.co_filename).name
            plugin, location = packages[module], f" ({file}, line {number})"
        elif USER_FILE in frame.f_globals:
            plugin, location = str(frame.f_globals[USER_FILE]), f" (line {number})"
    return plugin, location
