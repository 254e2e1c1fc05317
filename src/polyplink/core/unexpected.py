"""Bugs of the program or a plugin: one line names the package; the traceback goes into a file."""

import os
import tempfile
import traceback
from pathlib import Path

from polyplink.core.errors import LONGEST_PART, first_line, one_line


def unexpected(error: BaseException, doing: str) -> str:
    """Write the traceback of an unexpected exception to a file; describe the exception in a line.

    The line names the plugin if its code raised the exception, and polyplink otherwise.

    Args:
        error: The exception, with its traceback.
        doing: The command that was running.

    Returns:
        The command, the file it was working on, the exception, and the file with the traceback.
    """
    at = ""  # a path among the locals of the innermost function that has one
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "").startswith("polyplink"):
            paths = [value for value in frame.f_locals.values() if isinstance(value, Path)]
            at = f" on {paths[-1]}" if paths else at
    trace = "".join(traceback.format_exception(error))
    try:
        handle, name = tempfile.mkstemp(prefix="polyplink-", suffix=".txt")
        with os.fdopen(handle, "wb") as file:
            file.write(trace.encode("utf-8", "backslashreplace"))
        hint = f"the trace is in {name}"
    except OSError:
        hint = "--debug shows the trace"
    from polyplink.core.parts import REGISTRIES  # noqa: PLC0415 - needed here only
    from polyplink.core.registry import plugin_at_fault  # noqa: PLC0415

    at_fault = plugin_at_fault(error, [*REGISTRIES.values()])
    summary = f"`{doing}` failed{at}: {type(error).__name__}: {first_line(error)}"
    remedy = "correct" if at_fault.endswith((".py", "'")) else "report"  # no package
    return (
        f"{one_line(summary, 2 * LONGEST_PART)}; this is a fault of {at_fault or 'polyplink'}: "
        f"{remedy} it, {hint}"
    )
