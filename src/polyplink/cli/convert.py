"""The verb `convert`: a data folder written in another format."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import StrPath
from polyplink.cli.verb import inform, verb
from polyplink.core.artefacts import atomic_folder
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord


@verb
def convert_data(
    data: options.Data,
    data_format: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help="A format of `polyplink import`, except masks; or a plugin's.",
            autocompletion=options.complete_formats,
        ),
    ],
    out: Annotated[StrPath, Argument(help="New folder for the files.")],
    *,
    progress: Progress = inform,
) -> Result[dict[str, Any]]:
    """Write a data folder in another format of boxes, or in the layout of a released set.

    Args:
        progress: Called for procedures.

    Raises:
        PolyplinkError: If the format is unknown, `out` exists already, the folder is not a data
            folder, or the format cannot express the data set.
    """
    from polyplink.data.conversion import convert, find_written
    from polyplink.data.empty import read_empty
    from polyplink.data.origin import FILE as ORIGIN_FILE, read_origin
    from polyplink.data.tables import absolute_sources, read_data

    find_written(data_format)
    data, out = Path(data), Path(out)
    settings: dict[str, Any] = {"data": data, "format": data_format}
    record = RunRecord("convert", settings=settings)
    with record.stage("read"):
        dataset = read_data(data)
        dataset = replace(dataset, procedures=absolute_sources(dataset.procedures, data))
    record.inputs = {str(data): dataset.key}
    progress("procedures", 0, dataset.procedures.height)
    with atomic_folder(out) as folder:
        with record.stage("write"):
            warnings = convert(dataset, data_format, folder)
        record.write(folder)
    if n_empty := read_empty(data, dataset.part(None)).height:
        warnings.append(f"{n_empty} x frame annotated as free of polyps, not written")
    origin = read_origin(data)
    if origin is not None:
        warnings.append(
            f"the record of the detector {origin.name} is not written: name it with `polyplink "
            f"import --detector` and give its thresholds of tracks to `count`, or copy "
            f"{data / ORIGIN_FILE} into the imported folder"
        )
    progress("procedures", dataset.procedures.height, dataset.procedures.height)
    counts = {
        "out": str(out),
        "procedures": dataset.procedures.height,
        "boxes": dataset.detections.height,
        "warnings": warnings,
    }
    return Result(counts, printed=[f"{out}: {dataset.contents}"], warnings=warnings)
