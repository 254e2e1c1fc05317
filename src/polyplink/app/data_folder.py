"""The verbs of one data folder: `doctor`, `convert` and `prepare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyplink.app.request import Data, Progress, Result, Sets, Workers, counter, silent
from polyplink.core.artefacts import RunRecord, whole_folder
from polyplink.core.errors import find_named

if TYPE_CHECKING:
    from polyplink.data import Finding
    from polyplink.tracklets import Prepared


@dataclass(frozen=True)
class DoctorRequest:
    """What to check."""

    data: Data
    images: Annotated[bool, Option(help="Also look for the images, and open a sample of them.")] = (
        True
    )
    deep: Annotated[
        bool, Option("--deep", help="Open all images; takes as long as decoding them.")
    ] = False


def doctor(request: DoctorRequest, progress: Progress = silent) -> "Result[list[Finding]]":
    """Check a data set and list problems, worst first.

    An error among the findings makes the exit code 1.

    Raises:
        PolyplinkError: If the folder is not a data folder.
    """
    from polyplink.data import diagnose, read_data

    findings = diagnose(
        read_data(request.data),
        images=request.images,
        deep=request.deep,
        folder=request.data,
        progress=counter(progress, "images opened"),
    )
    lines = [f"{f.severity:8}{f.check} ({f.count}): {f.what}\n        {f.mend}" for f in findings]
    code = int(any(f.severity == "error" for f in findings))
    return Result(findings, shown=lines or ["nothing found"], code=code)


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


@dataclass(frozen=True)
class PrepareRequest:
    """What to prepare, and with which recipe."""

    data: Data
    recipe: Annotated[str, Option(help="Recipe whose settings to use.")] = "ntssl"
    sets: Sets = ()
    crops: Annotated[bool, Option(help="Cut crops, or build only tracklets.")] = True
    part: Annotated[str | None, Option(help="Part to crop; all by default.")] = None
    strict: Annotated[bool, Option("--strict", help="Stop at a frame that cannot be decoded.")] = (
        False
    )
    device: Annotated[
        str, Option(help="cpu or cuda: where crops of simulated sets are rendered.")
    ] = "cpu"
    workers: Workers = 2


def prepare_data(request: PrepareRequest, progress: Progress = silent) -> "Result[Prepared]":
    """Build tracklets and cut their crops, once.

    Raises:
        PolyplinkError: If the recipe, the part, the data folder or an image is at fault.
    """
    from polyplink.data import read_data
    from polyplink.recipes import find_recipe, override
    from polyplink.tracklets import prepare

    settings = override(find_recipe(request.recipe), request.sets).prepare
    part = request.part
    prepared = prepare(
        request.data,
        settings,
        procedures=None if part is None else read_data(request.data).part(part),
        with_crops=request.crops,
        strict=request.strict,
        workers=request.workers,
        device=request.device,
        progress=counter(progress, "crops"),
    )
    broken = prepared.broken()
    counts = {
        "out": str(prepared.folder),
        "procedures": len(prepared.procedures),
        "tracklets": prepared.tracklets.height,
        "crops": int(prepared.tracklets["n_crops"].sum()),
        "broken_frames": {name: len(frames) for name, frames in broken.items()},
    }
    warnings = [
        f"procedure {name}: {len(frames)} frames do not decode (first: {frames[0].image}, "
        f"{frames[0].why}); tracklets are cut there"
        for name, frames in broken.items()
    ]
    text = "{out}: {tracklets} tracklets, {crops} crops".format(**counts)
    return Result(prepared, counts, [text], warnings)
