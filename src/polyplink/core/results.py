"""What a verb reports: its progress while it runs, then its result.

A result is a Python value, and how the command line and a notebook show it.
"""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Generic, TypeVar

from typer import echo

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError, escape_control
from polyplink.core.text import many

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


def check_several(what: str, texts: Sequence[Any]) -> None:
    """Refuse one text in place of several, of which each letter would be one.

    Args:
        what: What the texts are, for the message.
        texts: The texts.

    Raises:
        PolyplinkError: If `texts` is one text.

    Example:
        >>> check_several("warnings", "a box is odd")
        Traceback (most recent call last):
        polyplink.core.errors.PolyplinkError: warnings is the text 'a box is odd'; give a list of
        texts
    """
    if isinstance(texts, str):
        shown = textwrap.shorten(texts, 40, placeholder=" ...")
        raise PolyplinkError(f"{what} is the text {shown!r}", "give a list of texts")


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
        return f"Result({text}, {many(len(self.warnings), 'warning')}, code={self.code})"

    def _repr_html_(self) -> str:
        return result_html(self.value, self.printed, self.warnings)

    def print_json(self) -> None:
        """Print one line of JSON.

        Raises:
            PolyplinkError: If the value cannot be written as JSON, and no `json` is given.
        """
        try:
            text = json.dumps(to_plain(self.value if self.json is None else self.json))
        except TypeError as error:
            raise PolyplinkError(
                f"--json: the result cannot be written ({error})",
                "give the Result a `json` of texts, numbers, lists and dictionaries",
            ) from error
        echo(text)

    def print_text(self) -> None:
        """Print the texts and tables.

        Raises:
            PolyplinkError: If `printed` is one text: its letters would be printed.
        """
        check_several("printed of a Result", self.printed)
        for item in self.printed:
            if isinstance(item, str):
                echo(escape_control(item))
            else:
                _print_table(item)


def _print_table(table: Any) -> None:
    """Print a table of rich; its cells cannot contain markup or control the terminal."""
    from rich.console import Console  # noqa: PLC0415 - slow
    from rich.segment import Segment  # noqa: PLC0415 - slow

    class Plain(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*args, **kwargs):
                yield Segment(text if control else escape_control(text), style, control)

    for column in table.columns:
        column.overflow = "fold"  # a word wider than its column is wrapped, not cut
    wide = None if sys.stdout.isatty() else WIDEST  # a file or a pipe gets whole cells
    Plain(markup=False, width=wide).print(table)


def result_html(value: Any, printed: Sequence[Any], warnings: Sequence[str]) -> str:
    """A result as HTML for a notebook: warnings, then the value's HTML or the printed items.

    Args:
        value: Value of the result. Warnings among its `html_warnings` are in its HTML, in the
            language of its page, and are not repeated.
        printed: Texts and rich tables that the command line prints.
        warnings: One sentence each.
    """
    render = None if isinstance(value, ShownFields) else getattr(value, "_repr_html_", None)
    parts = [render()] if render is not None else [_to_html(item) for item in printed]
    in_html = getattr(value, "html_warnings", ())
    further = [_escape(text) for text in warnings if text not in in_html]
    return "\n".join([*(f"<p><b>warning:</b> {text}</p>" for text in further), *parts])


def _escape(text: str) -> str:
    """A text for HTML, with its control characters as escapes."""
    return escape(escape_control(text))


def _to_html(item: Any) -> str:
    """Text, or a table of rich, as HTML."""
    if isinstance(item, str):
        return f'<pre style="white-space: pre-wrap">{_escape(item)}</pre>'

    def cell(content: Any, kind: str = "td") -> str:
        return f"<{kind}>{_escape(str(content)).replace(chr(10), '<br>')}</{kind}>"

    head = "".join(cell(column.header, "th") for column in item.columns)
    columns = [list(column.cells) for column in item.columns]
    rows = ["".join(map(cell, row)) for row in zip(*columns, strict=True)]
    body = "".join(f"<tr>{row}</tr>" for row in (head, *rows))
    return f"<table><caption>{_escape(str(item.title or ''))}</caption>{body}</table>"


class ShownFields:
    """A dataclass that a notebook shows as a table of its fields (with repr) and more tables."""

    def _tables(self) -> list[Any]:
        return []

    def _repr_html_(self) -> str:
        record: Any = self
        rows = [(field.name, getattr(self, field.name)) for field in fields(record) if field.repr]
        cells = (f"<tr><th>{name}</th><td>{_escape(str(v))}</td></tr>" for name, v in rows)
        table = f"<table><caption>{type(self).__name__}</caption>{''.join(cells)}</table>"
        return "\n".join([table, *map(_to_html, self._tables())])
