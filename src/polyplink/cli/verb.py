"""Shared by all verbs: checks of what is given, progress, and what they return."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Result

__all__ = ["UNMEASURED", "Result", "check_given", "inform", "named_files"]

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet


UNMEASURED = (
    "no figure could be measured: the notes count what there is, and `polyplink doctor` says which "
    "options give more tracklets"
)


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
        from polyplink.encoders.weights import read_record, weights_path

        read_record(weights_path(weights))
    if device is not None:
        from polyplink.encoders.device import check_device

        check_device(device)
        with suppress(PackageNotFoundError):  # that torch is missing, its import says
            PolyplinkError.unless(
                device in {"auto", "cpu"} or not version("torch").endswith("+cpu"),
                f"no device {device!r} here (torch {version('torch')} is built without CUDA)",
                "use --device cpu or auto, or install torch for CUDA",
            )
    from polyplink.data.tables import check_folder, read_data

    if truth is not None:
        check_folder(truth)
    if data is not None:
        check_folder(data)
        splits = data / "splits.json"
        parts_of_data = read_json(splits) if splits.is_file() else {}
        for part in parts:
            if part not in (None, "all", *parts_of_data):
                read_data(data).part(part)


def inform(stage: str, done: int, total: int) -> None:
    """The progress of verbs called from Python: bars in a notebook, nothing elsewhere."""
    if "ipykernel" in sys.modules:
        from polyplink.core.notebook import CELL_BARS

        CELL_BARS(stage, done, total)


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
