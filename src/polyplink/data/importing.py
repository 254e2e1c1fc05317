"""Import a released data set, or boxes from any source, into a data folder."""

import inspect
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.parts import FORMATS
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.runs import RunRecord, read_run
from polyplink.data.conversion import find_format
from polyplink.data.empty import write_empty
from polyplink.data.faults import Faults, warn_of_rate
from polyplink.data.files.archives import is_archive
from polyplink.data.files.folders import (
    check_is_there,
    is_video,
    other_format,
    without_garbage_collection,
)
from polyplink.data.files.limits import limits_lifted
from polyplink.data.origin import FILE as ORIGIN_FILE, BoxesOrigin, write_origin, write_warnings
from polyplink.data.return_boxes import write_places
from polyplink.data.tables import DataSet, Imported, change_data, is_data_folder, write_data
from polyplink.data.vocabulary import find_maps


def import_folder(
    data_format: str,
    source: Path,
    out: Path,
    *,
    images: bool = True,
    strict: bool = False,
    histology_map: str | None = None,
    detector: str | None = None,
    limits: bool = True,
    fps: float | None = None,
    workers: int = 2,
    options: Mapping[str, Any],
    progress: StageProgress = silent_stage,
) -> tuple[DataSet, list[Message]]:
    """Import a data set into the data folder `out`; return it with warnings.

    Existing tables in the folder are replaced; nothing in the source is changed.

    Args:
        data_format: Name of the format.
        source: The data set as released, or the boxes.
        out: Folder for the tables.
        images: Use the images if they exist.
        strict: Stop at the first unusable item instead of skipping it.
        histology_map: Name or file of the map of histology terms to adenoma; None for the papers'.
        detector: Name of the detector that made the boxes; None for annotated boxes.
        limits: Refuse archives that unpack to many times their size.
        fps: Frames per second of every procedure; None for those that are stated.
        workers: Number of worker processes.
        options: Options of the format, by name.
        progress: Callback with the procedures done and their total.

    Raises:
        PolyplinkError: If the format or map is unknown, the format does not take an option, or the
            data set has a fault.
    """
    # Refuse wrong arguments before anything is read.
    importer = find_format(data_format).read
    _check_options(data_format, importer, options)
    maps = find_maps(histology_map or "papers")
    settings: dict[str, Any] = {
        "format": data_format,
        "source": source.absolute(),
        "images": images,
        "strict": strict,
    }
    if histology_map is not None:
        settings["histology_map"] = histology_map
    if fps is not None:
        settings["fps"] = fps
    record = RunRecord("import", settings=settings | dict(options))
    _check_source(source, data_format)
    source = source.absolute()  # so that "." has a name
    _check_folders(source, out)
    record.claim(out)

    # Read the data set.
    lifted = nullcontext() if limits else limits_lifted()
    try:
        with (
            record.stage("read"),
            without_garbage_collection(),
            lifted,
            FORMATS.running(data_format),
        ):
            returned = importer(
                source,
                images=images,
                strict=strict,
                workers=workers,
                progress=progress,
                **options,
            )
    except PolyplinkError as error:
        raise type(error)(f"format {data_format}: {error.what}", error.hint) from error
    except OSError as error:  # no permission to read
        raise PolyplinkError(
            f"{error.filename or 'the source'}: {error.strerror or error}",
            "check the path and its permissions",
        ) from None

    imported = FORMATS.check_returned(data_format, returned, Imported)
    data = replace(imported.data, adenoma=maps)
    messages = [Message.of(warning) for warning in imported.warnings]
    if fps is not None:
        faults = Faults()
        warn_of_rate(data.procedures, pl.col("fps"), pl.lit(fps), faults)
        messages += faults.messages
        procedures = data.procedures.with_columns(fps=pl.lit(fps, pl.Float32))
        data = DataSet.of(data.detections, procedures, data.polyps, data.splits, adenoma=maps)
    warnings = [Message("boxes_read", {"line": message}) for message in messages]
    with new_data_folder(out, data, warnings, record) as folder:
        write_places(folder, data_format, replace(imported, data=data), source)
        if detector is not None:
            write_origin(folder, BoxesOrigin(detector, detector))
        elif imported.empty is not None:
            write_empty(folder, imported.empty)
    return data, messages


def check_same_source(out: Path, source: Path) -> None:
    """Refuse to replace the data folder of another source.

    Raises:
        PolyplinkError: If `out` is a data folder that was made from another source.
    """
    recorded = read_run(out).get("settings", {}).get("source")
    is_other = bool(recorded) and Path(recorded).resolve() != source.resolve()
    if is_other and source.exists() and is_data_folder(out):
        raise PolyplinkError(
            f"{out} holds the boxes of {recorded}",
            "name another folder, or replace them with --replace",
        )


@contextmanager
def new_data_folder(
    out: Path, data: DataSet, warnings: Sequence[Message], record: RunRecord
) -> Iterator[Path]:
    """Write a data folder, its warnings (warnings.json) and record (run.json) as one change.

    Args:
        out: The folder.
        data: The data set.
        warnings: Warnings about the boxes.
        record: Record of the command.

    Yields:
        A folder for further files of the change.
    """
    with change_data(out, ORIGIN_FILE) as new:
        with record.stage("write"):
            write_data(new, data)
            write_warnings(new, warnings)
            yield new
        record.write(new)


def _check_source(source: Path, data_format: str) -> None:
    """Check that the ending of a source fits the format, and that the source of a plugin exists."""
    built_in = data_format in FORMATS  # whose importers name what is missing
    is_file = built_in and source.is_file()
    if is_file and is_video(source.name):
        raise PolyplinkError(
            f"{source} is a video and holds no boxes",
            f"count the polyps of a video with `polyplink run {source}`",
        )
    if is_file and is_archive(source.name) and not find_format(data_format).archives:
        raise PolyplinkError(
            f"{source} is an archive, of which {data_format} reads no boxes",
            "unpack it, and import the folder",
        )
    other = other_format(source, data_format)
    if other is not None:
        raise PolyplinkError(
            f"{source} is not a file of boxes in the format {data_format}",
            f"`polyplink import {other} {shlex.quote(str(source))} DATA`",
        )
    if not built_in:
        check_is_there(source)


def _check_folders(source: Path, out: Path) -> None:
    """Check that the tables are not written into the data set, nor made of a data folder."""
    # realpath and not Path.resolve, which fails on a link that leads to itself.
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(source)):
        raise PolyplinkError(
            f"{out} is inside the data set {source}, which must not be changed",
            "give another folder for the tables",
        )
    if is_data_folder(source):
        raise PolyplinkError(
            f"{source} is already a data folder, which needs no import",
            f"continue with `polyplink doctor {source}`, then `polyplink prepare {source}`",
        )


def _check_options(
    data_format: str, importer: Callable[..., Imported], options: Mapping[str, Any]
) -> None:
    """Check that the importer of a format takes the options."""
    option_names = _options_of(importer)
    for name in options:
        if name not in option_names:
            takers = [key for key, form in FORMATS.items() if name in _options_of(form.read)]
            raise PolyplinkError(
                f"{data_format} takes no --{name.replace('_', '-')}",
                f"leave it out; those that take it: {', '.join(takers) or 'none'}",
            )


def _options_of(importer: Callable[..., Imported]) -> set[str]:
    """Names of the options of an importer, from its parameters and its `**options`."""
    parameters = inspect.signature(importer).parameters
    names = set(parameters)
    if "options" in parameters:  # **options: Unpack[TypedDict]
        for typed_dict in get_args(parameters["options"].annotation):
            names |= typed_dict.__annotations__.keys()
    return names
