"""Shared by all verbs: checks of arguments, output folders, progress, and results."""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import CELL_BARS, Result
from polyplink.core.text import readable_path

if TYPE_CHECKING:
    from polyplink.data.tables import DataSet


UNMEASURED = (
    "no figure could be measured: the notes count the data, and `polyplink doctor` lists options "
    "that give more tracklets"
)


def check_given(
    weights: Path | None = None,
    data: Path | None = None,
    parts: Sequence[str | None] = (),
    device: str | None = None,
    truth: Path | None = None,
) -> None:
    """Check that arguments exist, before a verb imports torch, which takes seconds.

    Args:
        weights: File, folder or name.
        data: Data folder.
        parts: Parts of the data set.
        device: Name of a device. A GPU is refused if torch is built without CUDA; the verb itself
            checks whether the device exists.
        truth: Data folder of annotated boxes.

    Raises:
        PolyplinkError: If an argument is missing or malformed.
    """
    if weights is not None:
        from polyplink.encoders.weights import read_record, weights_path

        read_record(weights_path(weights))
    if device is not None:
        from polyplink.encoders.device import check_device

        check_device(device)
        with suppress(PackageNotFoundError):  # importing torch reports that it is missing
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
        known = parts_of_data if isinstance(parts_of_data, dict) else {}
        for part in parts:
            if part not in (None, "all", *known):
                read_data(data).part(part)


def output_folder(out: str | Path | None, command: str, source: str | Path) -> Path:
    """The output folder of a count: `out`, or COMMAND/NAME, named after the source.

    Args:
        out: The folder that the user named; None for the default.
        command: The verb.
        source: A recording, a file or folder of boxes, a data folder, or the address of a device.

    Example:
        >>> output_folder(None, "run", "films/a.mp4"), output_folder(Path("x"), "run", "a.mp4")
        (PosixPath('run/a'), PosixPath('x'))
        >>> output_folder(None, "live", "rtsp://tower.local/1")
        PosixPath('live/tower.local-1')
    """
    if out is not None:
        is_file = Path(out).is_file()
        PolyplinkError.unless(not is_file, f"--out {out} is a file", "name a folder")
        return Path(out)
    path = Path(source).resolve()
    name = path.name if path.is_dir() else path.stem
    if "://" in str(source):  # an address
        name = re.sub(r"[^\w.]+", "-", str(source).partition("://")[2])
    return readable_path(Path(command), name.strip("-") or "all")


def inform(stage: str, done: int, total: int) -> None:
    """Progress of verbs called from Python: bars in a notebook, nothing elsewhere."""
    if "ipykernel" in sys.modules:
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
