"""The verb `convert`: write a data folder in another tool's format or a released layout."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from polyplink.app.request import Data, Progress, Result, silent
from polyplink.core.artefacts import RunRecord, whole_folder
from polyplink.core.errors import find_named


@dataclass(frozen=True)
class ConvertRequest:
    """What to convert, and into which format."""

    data: Data
    data_format: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help="coco, mot, yolo, cvat, csv, real-colon, ldpolyp, sun, polypsset or polyp-size.",
        ),
    ]
    out: Annotated[Path, Argument(help="New folder for the files.")]


def convert_data(request: ConvertRequest, progress: Progress = silent) -> Result[dict[str, Any]]:
    """Write a data folder as COCO, MOT, YOLO, CVAT, CSV, or as a released set is laid out.

    Raises:
        PolyplinkError: If the format is unknown, `out` exists already, the folder is not a data
            folder, or the format cannot express the data set.
    """
    from polyplink.data import FORMATS, convert, read_data

    find_named("format", request.data_format, FORMATS)
    out = request.out
    settings: dict[str, Any] = {"data": request.data, "format": request.data_format}
    record = RunRecord("convert", settings=settings)
    with record.stage("read"):
        data = read_data(request.data)
    record.inputs = {str(request.data): data.key}
    progress("procedures", 0, data.procedures.height)
    with whole_folder(out) as folder:
        with record.stage("write"):
            warnings = convert(data, request.data_format, folder)
        record.write(folder)
    progress("procedures", data.procedures.height, data.procedures.height)
    procedures, boxes = data.procedures.height, data.detections.height
    counts = {"out": str(out), "procedures": procedures, "boxes": boxes, "warnings": warnings}
    return Result(
        counts, shown=[f"{out}: {procedures} procedures, {boxes} boxes"], warnings=warnings
    )
