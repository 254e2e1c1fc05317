"""What a verb reports: its progress while it runs, then its result.

A result is a Python value, and how the command line and a notebook show it.
"""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from typer import echo

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import visible

Progress = Callable[[str, int, int], None]
"""Callback of a verb, called with (stage, done, total)."""
StageProgress = Callable[[int, int], None]
"""Callback of one stage of a verb, called with (done, total): `partial(progress, "stage")`."""

WIDEST = 2000  # characters of a line of a table in a file
LONGEST_REPR = 400  # characters of a value in the repr of a result

Value = TypeVar("Value")


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


def silent_stage(done: int, total: int) -> None:
    """A progress callback of one stage that does nothing."""


@dataclass(frozen=True)
class Result(Generic[Value]):
    """Result of a verb; the command line prints it and exits with its code.

    Attributes:
        value: The Python value.
        json: JSON-ready values for `--json`; by default `value`.
        printed: Texts and rich tables that the command line prints without `--json`.
        warnings: Sentences for stderr.
        code: Exit code of the process.
    """

    value: Value
    json: Any = None
    printed: Sequence[Any] = ()
    warnings: Sequence[str] = ()
    code: int = 0

    def __repr__(self) -> str:
        text = textwrap.shorten(repr(self.value), LONGEST_REPR, placeholder=" ...")
        return f"Result({text}, {len(self.warnings)} warnings, code={self.code})"

    def _repr_html_(self) -> str:
        from polyplink.core.notebook import result_html  # noqa: PLC0415 - in notebooks alone

        return result_html(self.value, self.printed, self.warnings)

    def print_json(self) -> None:
        """Print one line of JSON."""
        echo(json.dumps(to_plain(self.value if self.json is None else self.json)))

    def print_text(self) -> None:
        """Print the texts and tables."""
        for item in self.printed:
            if isinstance(item, str):
                echo(visible(item))
            else:
                _print_table(item)


def _print_table(table: Any) -> None:
    """Print a table of rich; its cells cannot contain markup or control the terminal."""
    from rich.console import Console  # noqa: PLC0415 - slow
    from rich.segment import Segment  # noqa: PLC0415 - slow

    class Plain(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*args, **kwargs):
                yield Segment(text if control else visible(text), style, control)

    for column in table.columns:
        column.overflow = "fold"  # a word wider than its column is wrapped, not cut
    wide = None if sys.stdout.isatty() else WIDEST  # a file or a pipe gets whole cells
    Plain(markup=False, width=wide).print(table)
