"""Shared by all verbs: checks of a request, progress callbacks, printable results.

A verb is a function `verb(request, progress)`; `cli.options` says what its request is made of.
"""

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from typer import echo

from polyplink.core.artefacts import read_json, to_plain
from polyplink.core.errors import PolyplinkError, visible

if TYPE_CHECKING:
    from polyplink.data import DataSet


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
        device: Name of a device. A GPU is refused if torch is built without CUDA; whether the
            device is there, the verb finds out itself.
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
        with suppress(PackageNotFoundError):  # that torch is missing, its import says
            PolyplinkError.unless(
                device in {"auto", "cpu"} or not version("torch").endswith("+cpu"),
                f"no device {device!r} here (torch {version('torch')} is built without CUDA)",
                "use --device cpu or auto, or install torch for CUDA",
            )
    from polyplink.data import check_folder, read_data

    if truth is not None:
        check_folder(truth)
    if data is not None:
        check_folder(data)
        splits = data / "splits.json"
        parts_of_data = read_json(splits) if splits.is_file() else {}
        for part in parts:
            if part not in (None, "all", *parts_of_data):
                read_data(data).part(part)


WIDEST = 2000  # characters of a line of a table in a file
UNMEASURED = (
    "no figure could be measured: the notes count what there is, and `polyplink doctor` says which "
    "options give more tracklets"
)
LONGEST_REPR = 400  # characters of a value in the repr of its result

Value = TypeVar("Value")


def inform(stage: str, done: int, total: int) -> None:
    """The progress of verbs called from Python: bars in a notebook, nothing elsewhere."""
    if "ipykernel" in sys.modules:
        from polyplink.core.notebook import CELL_BARS

        CELL_BARS(stage, done, total)


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
        from polyplink.core.notebook import result_html

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
        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*args, **kwargs):
                yield Segment(text if control else visible(text), style, control)

    for column in table.columns:
        column.overflow = "fold"  # a word wider than its column goes on below, and is not cut
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
    files = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        PolyplinkError.unless(bool(equals), f"{option} {pair!r} names no file", "write NAME=FILE")
        files[name] = Path(path)
    return files


def written_data(out: Path, data: "DataSet", warnings: Sequence[str]) -> "Result[DataSet]":
    """What a verb says of the data folder that it wrote.

    Args:
        out: The folder.
        data: Its tables.
        warnings: Of the verb.
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
