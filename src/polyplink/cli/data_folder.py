"""The verbs of data folders: `import`, `merge`, `doctor`, `split`, `convert` and `prepare`."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import Request, TrackletRequest, names_of, option
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.artefacts import RunRecord, read_json, whole_folder, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import FORMATS
from polyplink.core.progress import Progress, counter
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.data import DataSet, Finding
    from polyplink.tracklets import Prepared, PrepareSettings

HistologyMap = Annotated[
    str | None,
    Option(
        metavar="NAME|FILE",
        help="Histology map for adenoma: papers (the default), tsa-adenoma, or a JSON file.",
    ),
]


@dataclass(frozen=True)
class ImportRequest(Request):
    """What to import; format-specific options are None unless given."""

    data_format: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help=f"{', '.join(FORMATS)}, or the format of a plugin.",
            autocompletion=names_of("polyplink.core.parts", "FORMATS"),
        ),
    ]
    source: Annotated[Path, Argument(metavar="SRC", help="The data set as released.")]
    out: Annotated[Path, Argument(help="Folder for the tables.")]
    images: bool = option("Use the images if they exist.", True)
    strict: bool = option("Stop at the first unusable item instead of skipping it.", False)
    identity: str | None = option("What counts as one polyp, if not given: video, ...")
    boxes: Path | None = option("File with the boxes (polyp-size).")
    cases: Path | None = option("Table of cases (sun) or labels (polyp-size).")
    size: str | None = option("Frame size WIDTHxHEIGHT, if no file contains it.", metavar="WxH")
    dataset: str | None = option("Name of the data set.")
    datasets: Sequence[str] = option("ID=NAME: name of the data set with this id (coco).", ())
    first_frame: int | None = option("Number of a video's first frame.")
    video: Path | None = option(
        "The video, or a folder of videos named as procedures.", metavar="FILE|FOLDER"
    )
    kind: str | None = option("gt or det (mot).")
    attribute: str | None = option("Attribute that names the polyp (cvat).")
    sixth: str | None = option("Meaning of a sixth number (yolo).")
    image_folder: str | None = option("Folder of the images (masks).")
    mask_folder: str | None = option("Folder of the masks (masks).")
    histology_map: HistologyMap = None
    detector: str | None = option(
        "Name of the detector that made the boxes; leave it out for annotated ones."
    )
    limits: bool = option(
        "Refuse archives that unpack to many times their size, and 20 M boxes.", True
    )
    workers: options.Workers = 2


@dataclass(frozen=True)
class MergeRequest(Request):
    """Which data folders to merge."""

    out: Annotated[Path, Argument(help="Folder for the tables.")]
    data: Annotated[Sequence[Path], Argument(help="Data folders that `polyplink import` wrote.")]
    histology_map: HistologyMap = None


COMMON = (
    *("data_format", "source", "out", "images", "strict", "histology_map", "detector", "limits"),
    "workers",
)


def import_data(request: ImportRequest, progress: Progress = inform) -> "Result[DataSet]":
    """Import a released data set, or boxes from any source, into tables.

    Tables that are in the folder already are replaced; nothing in the source is changed.

    Raises:
        PolyplinkError: If the format or map is unknown, the format does not take an option, or the
            data set has a fault.
    """
    from polyplink.data.importing import import_folder

    data, warnings = import_folder(
        request.data_format,
        request.source,
        request.out,
        images=request.images,
        strict=request.strict,
        histology_map=request.histology_map,
        detector=request.detector,
        limits=request.limits,
        workers=request.workers,
        options=_own_options(request),
        progress=counter(progress, "procedures"),
    )
    return _written_result(request.out, data, warnings)


def _own_options(request: ImportRequest) -> dict[str, Any]:
    """The given format-specific options, parsed."""
    named_options: dict[str, Any] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        if field.name not in COMMON and value not in (None, ()):
            named_options[field.name] = value
    if "size" in named_options:
        size = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", named_options["size"])
        if size is None:
            raise PolyplinkError(
                f"--size {named_options['size']} is not a size",
                "give WIDTHxHEIGHT, as in 1352x1080",
            )
        named_options["size"] = (int(size.group(1)), int(size.group(2)))
    if "datasets" in named_options:
        pairs = [text.partition("=") for text in named_options["datasets"]]
        for key, sign, name in pairs:
            if not (key and sign and name):
                raise PolyplinkError(f"--datasets {key}{sign}{name} is not a pair", "give ID=NAME")
        named_options["datasets"] = {key: name for key, _, name in pairs}
    return named_options


def merge_data(request: MergeRequest, progress: Progress = inform) -> "Result[DataSet]":
    """Merge several data folders; images are not copied.

    Overlaps known between the data sets become warnings.

    Raises:
        PolyplinkError: If a folder is no data folder, is named twice or is `out`, or ids clash.
    """
    import polars as pl

    from polyplink.data import find_maps, merge, overlaps, read_data
    from polyplink.data.empty import read_empty, write_empty
    from polyplink.data.importing import write_folder
    from polyplink.tracklets.scenes import read_scenes, write_scenes

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
    settings = {"folders": list(folders), "map": request.histology_map}
    record = RunRecord("merge", settings=settings)
    record.claim(out)
    maps = None if request.histology_map is None else find_maps(request.histology_map)
    with record.stage("read"):
        sets = [(folder, read_data(folder)) for folder in folders]
    with record.stage("merge"):
        data = merge(sets, maps)
    record.inputs = {str(folder): dataset.key for folder, dataset in sets}
    scenes = {name: scene for folder in folders for name, scene in read_scenes(folder).items()}

    def keep(folder: Path) -> None:
        empty = [read_empty(source, dataset.part(None)) for source, dataset in sets]
        write_empty(folder, pl.concat(empty))
        write_scenes(folder, scenes)

    warnings = overlaps(data)
    write_folder(out, data, warnings, record, keep)
    return _written_result(out, data, warnings)


def _written_result(out: Path, data: "DataSet", warnings: Sequence[str]) -> "Result[DataSet]":
    """What is printed of a data folder that was written."""
    counts = {
        "out": str(out),
        "procedures": data.procedures.height,
        "polyps": data.polyps.height,
        "boxes": data.detections.height,
        "warnings": warnings,
        "splits": {name: len(ids) for name, ids in data.splits.items()},
    }
    text = f"{out}: {data.contents}"
    return Result(data, counts, [text], warnings)


@dataclass(frozen=True)
class DoctorRequest(Request):
    """What to check."""

    data: options.Data
    images: bool = option("Also look for the images, and open a sample of them.", True)
    deep: bool = option("Open all images; takes as long as decoding them.", False)


def doctor(request: DoctorRequest, progress: Progress = inform) -> "Result[list[Finding]]":
    """Check a data set and list problems, worst first.

    An error among the findings makes the exit code 1.

    Raises:
        PolyplinkError: If the folder is not a data folder.
    """
    from polyplink.data import SEVERITIES, diagnose, read_data

    data = read_data(request.data)
    findings = diagnose(
        data,
        images=request.images,
        deep=request.deep,
        folder=request.data,
        progress=counter(progress, "images opened"),
    )
    findings = sorted([*findings, *_of_tracklets(data)], key=lambda f: SEVERITIES.index(f.severity))
    lines = [f"{f.severity:8}{f.check} ({f.count}): {f.what}\n        {f.mend}" for f in findings]
    code = int(any(f.severity == "error" for f in findings))
    return Result(findings, shown=lines or ["no problems"], code=code)


def _of_tracklets(data: "DataSet") -> "list[Finding]":
    """How many tracklets the default settings give, and which setting loses the other boxes."""
    from functools import partial

    import polars as pl

    from polyplink.data import Finding
    from polyplink.tracklets import PrepareSettings, build_tracklets, kept_tracklets

    if data.detections.is_empty():
        return []
    settings = PrepareSettings()
    fps = dict(data.procedures.select("procedure_id", "fps").iter_rows())
    build = partial(build_tracklets, data.detections, tracks=settings.tracks, fps=fps)
    _, cut = build(max_gap=settings.max_gap, min_iou=settings.min_iou)
    _, uncut_tracklets = build(max_gap=int(data.procedures["n_frames"].sum()), min_iou=0.0)
    cut_tracklets = kept_tracklets(cut, settings, fps)
    has_polyp = pl.col("polyp_id").is_not_null()

    def boxes(tracklets: pl.DataFrame, rows: pl.Expr = has_polyp) -> int:
        return int(tracklets.filter(rows)["n"].sum())

    uncut = boxes(kept_tracklets(uncut_tracklets, settings, fps))
    total, unnamed = data.detections.height, data.detections["polyp_id"].null_count()
    lost = {
        f"where gaps or jumps cut a polyp's boxes (--max-gap {settings.max_gap}, --min-iou "
        f"{settings.min_iou:g})": uncut - boxes(cut_tracklets),
        f"of polyps with fewer than {settings.min_length} boxes at a time (--min-length)": total
        - unnamed
        - uncut,
        "without a polyp, in tracks shorter than "
        f"{settings.min_seconds:g} s (--min-seconds) or of too low a score (--low)": unnamed
        - boxes(cut_tracklets, ~has_polyp),
    }
    count = sum(lost.values())
    mostly_lost = 2 * count > total
    summary = f"the default settings give {cut_tracklets.height} tracklets"
    reasons = [f"{n} {reason}" for reason, n in lost.items() if n]
    return [
        Finding(
            "warning" if mostly_lost else "note",
            "tracklets",
            f"{summary}; of {total} boxes they leave out {', '.join(reasons)}"
            if reasons
            else summary,
            max(count, 1),
            _for_few_boxes(data, fps, settings)
            if mostly_lost
            else "give these options to change them"
            if reasons
            else "none needed",
        )
    ]


def _for_few_boxes(
    data: "DataSet", fps: Mapping[str, float | None], settings: "PrepareSettings"
) -> str:
    """The options that make tracklets of single frames and short sequences, and how many."""
    import polars as pl

    from polyplink.tracklets import build_tracklets, kept_tracklets

    keys = ["procedure_id", "polyp_id"]
    frames = data.detections.select(*keys, "frame").unique().sort(*keys, "frame")
    steps = frames.select(pl.col("frame").diff().over(keys))["frame"].drop_nulls()
    # A longer step is an absence: half of a polyp's steps, or of a procedure's, are no longer.
    gap = max(int(steps.median() or 1), 1)  # type: ignore[arg-type]
    loose = replace(settings, max_gap=gap, min_iou=0.0, min_length=1, min_seconds=0.0, stride=1)
    _, built = build_tracklets(
        data.detections, max_gap=gap, min_iou=0.0, tracks=loose.tracks, fps=fps
    )
    table = kept_tracklets(built, loose, fps)
    return (
        f"for single frames and short sequences: --max-gap {gap} --min-iou 0 --min-length 1 "
        f"--min-seconds 0 --stride 1 gives {table.height} tracklets of {table['n'].sum()} boxes; "
        "prepare, train, embed, count and evaluate take these options"
    )


@dataclass(frozen=True)
class SplitRequest(Request):
    """Which data folder to split, and how."""

    data: options.Data
    shares: str = option(
        "Parts and their shares of the procedures.",
        "train=0.7,eval=0.15,test=0.15",
        metavar="PART=SHARE,...",
    )
    seed: int = option("Seed of the order of patients.", 0)
    lists: Path | None = option("JSON file of part -> procedure ids, instead of shares.")


def split_data(request: SplitRequest, progress: Progress = inform) -> Result[dict[str, list[str]]]:
    """Divide a data folder into parts; no patient is in two.

    Writes splits.json; parts that were there are replaced.

    Raises:
        PolyplinkError: If the shares or lists are malformed, a list names an unknown procedure, a
            patient would be in two parts, or there are fewer patients than parts.
    """
    from polyplink.data import check_splits, read_data, split_by_shares

    data = read_data(request.data)
    if request.lists is None:
        splits = split_by_shares(data.procedures, _shares(request.shares), request.seed)
    else:
        splits = read_json(request.lists, "check the path given with --lists")
        check_splits(splits, data.procedures, str(request.lists))
    write_json(request.data / "splits.json", splits)
    progress("parts", len(splits), len(splits))
    replaced = [f"replaced the parts {', '.join(data.splits)}"] if any(data.splits.values()) else []
    text = ", ".join(f"{part} {len(ids)}" for part, ids in splits.items())
    return Result(splits, shown=[f"{request.data / 'splits.json'}: {text}"], warnings=replaced)


def _shares(text: str) -> Mapping[str, float]:
    shares: dict[str, float] = {}
    for pair in text.split(","):
        part, _, share = (piece.strip() for piece in pair.partition("="))
        try:
            value = float(share)
        except ValueError:
            value = 0.0
        if not part or part in shares or not 0 < value <= 1:
            raise PolyplinkError(
                f"--shares {text!r} is no list of parts with shares above 0",
                "write train=0.7,eval=0.15,test=0.15",
            )
        shares[part] = value
    total = sum(shares.values())
    if abs(total - 1) > 1e-6:
        raise PolyplinkError(f"--shares {text!r} add up to {total:g}", "make them add up to 1")
    return shares


@dataclass(frozen=True)
class ConvertRequest(Request):
    """What to convert, and into which format."""

    data: options.Data
    data_format: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help="A format as of `polyplink import`; masks are read alone.",
            autocompletion=names_of("polyplink.core.parts", "FORMATS"),
        ),
    ]
    out: Annotated[Path, Argument(help="New folder for the files.")]


def convert_data(request: ConvertRequest, progress: Progress = inform) -> Result[dict[str, Any]]:
    """Write a data folder as COCO, MOT, YOLO, CVAT, CSV, or as a released set is laid out.

    Raises:
        PolyplinkError: If the format is unknown, `out` exists already, the folder is not a data
            folder, or the format cannot express the data set.
    """
    from polyplink.data import convert, find_written, read_data

    find_written(request.data_format)
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
    counts = {"out": str(out), "procedures": data.procedures.height}
    counts |= {"boxes": data.detections.height, "warnings": warnings}
    return Result(counts, shown=[f"{out}: {data.contents}"], warnings=warnings)


@dataclass(frozen=True)
class PrepareRequest(TrackletRequest):
    """What to prepare, and with which recipe."""

    data: options.Data
    recipe: str = option(
        "Recipe with the settings to use.", "ntssl", autocompletion=options.RECIPES
    )
    sets: options.Sets = ()
    crops: bool = option("Cut crops, or build only tracklets.", True)
    part: str | None = option("Part to crop; all by default.")
    strict: bool = option("Stop at a frame that cannot be decoded.", False)
    device: str = option("cpu or cuda: where crops of simulated sets are rendered.", "cpu")
    workers: options.Workers = 2


def prepare_data(request: PrepareRequest, progress: Progress = inform) -> "Result[Prepared]":
    """Build tracklets and cut their crops, once.

    Raises:
        PolyplinkError: If the recipe, the part, the data folder or an image is at fault.
    """
    check_given(None, request.data, [request.part])
    from polyplink.data import read_data
    from polyplink.recipes import find_recipe, override
    from polyplink.tracklets import prepare

    settings = request.on(override(find_recipe(request.recipe), request.sets).prepare)
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
    counts: dict[str, Any] = {
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
    text = (
        f"{counts['out']}: {many(counts['tracklets'], 'tracklet')}, {many(counts['crops'], 'crop')}"
    )
    return Result(prepared, counts, [text], warnings)
