"""The verbs `import` and `merge`: released data sets, or data folders, into one data folder."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Argument, Option

from polyplink.app.request import HistologyMap, Progress, Result, Workers, counter, silent
from polyplink.core.artefacts import RunRecord, write_json
from polyplink.core.errors import PolyplinkError, find_named

if TYPE_CHECKING:
    from polyplink.data import DataSet, Imported


@dataclass(frozen=True)
class ImportRequest:
    """What to import; format-specific options are None unless given."""

    data_format: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help="real-colon, ldpolyp, sun, polypsset, polyp-size, coco, mot, yolo, cvat or csv.",
        ),
    ]
    source: Annotated[Path, Argument(metavar="SRC", help="The data set as released.")]
    out: Annotated[Path, Argument(help="Folder for the tables.")]
    images: Annotated[bool, Option(help="Use the images if they exist.")] = True
    strict: Annotated[
        bool, Option("--strict", help="Stop at the first unusable item instead of skipping it.")
    ] = False
    identity: Annotated[
        str | None, Option(help="What counts as one polyp, if not given: video, ...")
    ] = None
    boxes: Annotated[Path | None, Option(help="File with the boxes (polyp-size).")] = None
    cases: Annotated[Path | None, Option(help="Table of cases (sun) or labels (polyp-size).")] = (
        None
    )
    size: Annotated[
        str | None, Option(metavar="WxH", help="Frame size WIDTHxHEIGHT, if no file contains it.")
    ] = None
    dataset: Annotated[str | None, Option(help="Name of the data set.")] = None
    datasets: Annotated[
        Sequence[str], Option(help="ID=NAME: name of the data set with this id (coco).")
    ] = ()
    first_frame: Annotated[int | None, Option(help="Number of a video's first frame.")] = None
    kind: Annotated[str | None, Option(help="gt or det (mot).")] = None
    attribute: Annotated[str | None, Option(help="Attribute that names the polyp (cvat).")] = None
    sixth: Annotated[str | None, Option(help="Meaning of a sixth number (yolo).")] = None
    histology_map: HistologyMap = None
    workers: Workers = 2


@dataclass(frozen=True)
class MergeRequest:
    """Which data folders to merge."""

    out: Annotated[Path, Argument(help="Folder for the tables.")]
    data: Annotated[Sequence[Path], Argument(help="Data folders that `polyplink import` wrote.")]
    histology_map: HistologyMap = None


COMMON = ("data_format", "source", "out", "images", "strict", "histology_map", "workers")


def importers() -> "Mapping[str, Callable[..., Imported]]":
    """The importer of every format, by the format's name."""
    from polyplink import data

    return {
        "real-colon": data.import_real_colon,
        "ldpolyp": data.import_ldpolyp,
        "sun": data.import_sun,
        "polypsset": data.import_polypsset,
        "polyp-size": data.import_polyp_size,
        "coco": data.import_coco,
        "mot": data.import_mot,
        "yolo": data.import_yolo,
        "cvat": data.import_cvat,
        "csv": data.import_csv,
    }


def import_data(request: ImportRequest, progress: Progress = silent) -> "Result[DataSet]":
    """Import a released data set, or boxes from any source, into tables.

    Tables that are in the folder already are replaced; nothing in the source is changed.

    Raises:
        PolyplinkError: If the format or map is unknown, the format does not take an option, or the
            data set has a fault.
    """
    from polyplink.data import find_maps, write_data

    importer = find_named("format", request.data_format, importers())
    own = _own_options(request)
    maps = find_maps(request.histology_map or "papers")
    asked = {
        "format": request.data_format,
        "source": request.source,
        "images": request.images,
        "strict": request.strict,
    }
    if request.histology_map is not None:
        asked["histology_map"] = request.histology_map
    record = RunRecord("import", settings=asked | own)
    # realpath and not Path.resolve, which fails on a link that leads to itself.
    if Path(os.path.realpath(request.out)).is_relative_to(os.path.realpath(request.source)):
        raise PolyplinkError(
            f"{request.out} is inside the data set {request.source}, in which nothing is changed",
            "name another folder for the tables",
        )
    record.claim(request.out)
    with record.stage("read"), _unreadable_is_an_error():
        imported = importer(
            request.source,
            images=request.images,
            strict=request.strict,
            workers=request.workers,
            progress=counter(progress, "procedures"),
            **own,
        )
    data = replace(imported.data, adenoma=maps)
    with record.stage("write"):
        write_data(request.out, data)
        write_json(request.out / "warnings.json", imported.warnings)
    record.write(request.out)
    return _written(request.out, data, imported.warnings)


def _own_options(request: ImportRequest) -> dict[str, Any]:
    """The given format-specific options, parsed.

    Raises:
        PolyplinkError: If the format does not take one of them, or a value is malformed.
    """
    given: dict[str, Any] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        if field.name not in COMMON and value not in (None, ()):
            given[field.name] = value
    if "size" in given:
        found = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", given["size"])
        if found is None:
            raise PolyplinkError(
                f"--size {given['size']} is not a size", "give WIDTHxHEIGHT, as in 1352x1080"
            )
        given["size"] = (int(found.group(1)), int(found.group(2)))
    if "datasets" in given:
        pairs = [text.partition("=") for text in given["datasets"]]
        for key, sign, name in pairs:
            if not (key and sign and name):
                raise PolyplinkError(f"--datasets {key}{sign}{name} is not a pair", "give ID=NAME")
        given["datasets"] = {key: name for key, _, name in pairs}

    known = importers()
    takes = {name: _options_of(importer) for name, importer in known.items()}
    for option in given:
        if option not in takes[request.data_format]:
            takers = [name for name, options in takes.items() if option in options]
            raise PolyplinkError(
                f"{request.data_format} takes no --{option.replace('_', '-')}",
                f"leave it out; those that take it: {', '.join(takers) or 'none'}",
            )
    return given


def _options_of(importer: "Callable[..., Imported]") -> set[str]:
    """Names of an importer's arguments, and of those that it takes as `**options`."""
    parameters = inspect.signature(importer).parameters
    (options,) = get_args(parameters["options"].annotation)
    return {*parameters, *options.__annotations__}


@contextmanager
def _unreadable_is_an_error() -> Iterator[None]:
    """Report a file without read permission as a user error."""
    try:
        yield
    except OSError as error:
        raise PolyplinkError(
            f"{error.filename or 'the source'}: {error.strerror or error}",
            "check the path and its permissions",
        ) from None


def merge_data(request: MergeRequest, progress: Progress = silent) -> "Result[DataSet]":
    """Merge several data folders; images are not copied.

    Overlaps known between the data sets become warnings.

    Raises:
        PolyplinkError: If a folder is no data folder, is named twice or is `out`, or ids clash.
    """
    from polyplink.data import find_maps, merge, overlaps, read_data, write_data

    out, folders = request.out, request.data
    places: dict[str, Path] = {}
    for folder in folders:
        place = os.path.realpath(folder)
        if place in places:
            raise PolyplinkError(f"{folder} is named twice", "name each folder once")
        places[place] = folder
    if os.path.realpath(out) in places:
        raise PolyplinkError(
            f"{out} is one of the folders to merge", "name another folder for the result"
        )
    asked = {"folders": list(folders), "map": request.histology_map}
    record = RunRecord("merge", settings=asked)
    record.claim(out)
    maps = None if request.histology_map is None else find_maps(request.histology_map)
    with record.stage("read"):
        sets = [(folder, read_data(folder)) for folder in folders]
    with record.stage("merge"):
        data = merge(sets, maps)
    record.inputs = {str(folder): each.key for folder, each in sets}
    warnings = overlaps(data)
    with record.stage("write"):
        write_data(out, data)
        write_json(out / "warnings.json", warnings)
    record.write(out)
    return _written(out, data, warnings)


def _written(out: Path, data: "DataSet", warnings: Sequence[str]) -> "Result[DataSet]":
    """The data folder that was written; its warnings are also in warnings.json."""
    counts = {
        "out": str(out),
        "procedures": data.procedures.height,
        "polyps": data.polyps.height,
        "boxes": data.detections.height,
        "warnings": warnings,
        "splits": {name: len(ids) for name, ids in data.splits.items()},
    }
    text = "{out}: {procedures} procedures, {polyps} polyps, {boxes} boxes".format(**counts)
    return Result(data, counts, [text], warnings)
