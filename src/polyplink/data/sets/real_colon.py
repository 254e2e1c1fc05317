"""Read REAL-Colon as it is released: 60 procedures, 132 polyps, 2.76 million annotation files.

Source: Biffi et al., Scientific Data 2024, 11:539 (figshare 22202866). Images are optional: the
annotations and the two tables are enough to build tracklets and count from boxes. Files are listed
by folder and read through bare descriptors, archives in one pass: at this number of files every
microsecond of each is seconds of the import.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import box_table, check_boxes, fit_boxes
from polyplink.data.faults import Faults
from polyplink.data.files.archives import INSIDE, read_members
from polyplink.data.files.folders import LARGEST, read_each
from polyplink.data.files.trees import open_tree
from polyplink.data.protocols import split_by_rule
from polyplink.data.sets.layout import VocObject, named_dataset, nothing_found, parse_voc
from polyplink.data.sets.real_colon_layout import LESION_INFO, VIDEO_INFO, frames_folder
from polyplink.data.tables import (
    POLYPS,
    PROCEDURES,
    Column,
    DataSet,
    Imported,
    check,
    read_text_table,
)
from polyplink.data.vocabulary import SIMULATED, normalise_location

DATASET = "real-colon"

_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")  # the first is how it is released
_NUMBER = re.compile(r"_(\d+)(?:\.0+)?\.[A-Za-z]+$")  # the release has `.0` in frames of 001-012
_SIDE = re.compile(r"<(width|height)>(\d+)</\1>")
_READ_BYTES = 1 << 16  # an annotation file is about 1 KiB
_AGAIN = "unpack the archive again"


class ProcedureSource(NamedTuple):
    """Where the annotations of one procedure are, and what they may name."""

    procedure_id: str
    annotations: Path  # folder of its XML files, or their archive
    frames: Path | None  # folder or archive of its images; None: there are none, or not wanted
    polyp_ids: frozenset[str]  # its lesions


class ProcedureBoxes(NamedTuple):
    """What the annotations of one procedure hold."""

    size: tuple[int, int]  # width and height of the first frame, pixels
    n_files: int  # annotation files, one for each frame
    boxes: pl.DataFrame  # columns of `DETECTIONS`, in the order of the frames
    faults: Faults


def import_real_colon(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> Imported:
    """Read a REAL-Colon folder into the three tables; archives are read without unpacking.

    Procedures are those with annotations, in the order of `video_info.csv`, each its own patient.
    The splits are those of `split_by_rule`. A `dataset.txt`, which the release has not and our
    writers leave, gives the data set another name than real-colon.

    Args:
        source: Folder with `video_info.csv`, `lesion_info.csv` and, for every procedure,
            `<procedure>_annotations.tar.gz` as downloaded, or the folder unpacked from it, which
            is preferred to the archive.
        images: Name each box's image, where the procedure's frames exist, archive or folder.
        strict: Raise at the first thing that cannot be used, instead of leaving it out and
            counting it. The frame of a missing image loses its boxes, so that a tracklet is cut
            there.
        progress: Called after every procedure with how many are read and how many there are.
        workers: Processes that read. More than one needs the main module to be importable.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a folder, table or column is missing; if strict, at the first
            faulty file or box (see `read_boxes`).
    """
    if not source.is_dir():
        raise PolyplinkError(f"no folder {source}", "check the path")
    folders = _annotation_folders(source)
    videos, lesions = read_tables(source)
    unknown = sorted(set(folders) - set(videos["procedure_id"]))
    if unknown:
        raise PolyplinkError(
            f"{source / 'video_info.csv'} has no row for {unknown[0]}",
            f"add the row, or move {folders[unknown[0]].name} away",
        )
    videos = videos.filter(pl.col("procedure_id").is_in(list(folders)))
    lesions = lesions.filter(pl.col("procedure_id").is_in(list(folders)))
    polyps = lesions.group_by("procedure_id").agg("polyp_id")
    polyp_ids = {name: frozenset(ids) for name, ids in polyps.iter_rows()}
    sources = [
        ProcedureSource(
            procedure_id=name,
            annotations=folders[name],
            frames=_frames_place(source, name) if images else None,
            polyp_ids=polyp_ids.get(name, frozenset()),
        )
        for name in videos["procedure_id"]
    ]
    read = read_each(
        partial(read_boxes, strict=strict), sources, workers=workers, progress=progress
    )
    procedures = videos.with_columns(
        dataset=pl.lit(_dataset(source)),
        patient=pl.col("procedure_id"),
        width=pl.Series([boxes.size[0] for boxes in read], dtype=pl.Int32),
        height=pl.Series([boxes.size[1] for boxes in read], dtype=pl.Int32),
        source=pl.lit(str(source.resolve())),
    )
    data = DataSet.of(
        pl.concat(boxes.boxes for boxes in read),
        procedures,
        lesions,
        split_by_rule(videos["procedure_id"], set(lesions["procedure_id"])),
    )
    return Imported(data, _warnings(videos, polyp_ids, read).lines())


def _annotation_folders(source: Path) -> dict[str, Path]:
    """Procedure id to its folder or archive, under either of the two names in use."""
    folders: dict[str, Path] = {}
    for path in sorted(source.iterdir()):
        stem = next((path.name.removesuffix(e) for e in _ARCHIVES if path.name.endswith(e)), None)
        procedure_id, _, kind = (stem or path.name).rpartition("_")
        if kind not in ("annotations", "annotation") or procedure_id[:1] in ("", "."):
            continue
        before = folders.get(procedure_id)
        if before is not None and before.is_dir() and not path.is_dir():
            continue  # unpacked beside its archive, which sorts behind it
        if before is not None:
            raise PolyplinkError(f"{path} and {before} are of one procedure", "remove one of them")
        folders[procedure_id] = path
    if not folders:
        wanted = "<procedure>_annotations.tar.gz, nor a folder <procedure>_annotations"
        raise nothing_found(open_tree(source, Faults()), source, wanted, DATASET)
    return folders


def _frames_place(source: Path, procedure_id: str) -> Path | None:
    """Where a procedure's images are: the folder, else an archive of that name, else nowhere."""
    folder = source / frames_folder(procedure_id)
    archives = (folder.with_name(f"{folder.name}{end}") for end in _ARCHIVES)
    return folder if folder.is_dir() else next((path for path in archives if path.is_file()), None)


def _dataset(source: Path) -> str:
    """What is in this layout: what `dataset.txt` says, or the simulator's run.json.

    The release has neither. A simulation's preset and seed are part of its name, because
    procedures of two seeds differ under the same ids.
    """
    if named := named_dataset(source):
        return named
    run = source / "run.json"
    record = read_json(run) if run.is_file() else {}
    if not isinstance(record, Mapping) or record.get("command") != "simulate":
        return DATASET
    settings = record.get("settings")
    name = settings.get("name") if isinstance(settings, Mapping) else None
    return simulated_name(str(name or "?"), record.get("seed"))


def simulated_name(preset: str, seed: int | None) -> str:
    """Name of a simulated data set."""
    return f"{SIMULATED} {preset} {seed}"


def _warnings(
    videos: pl.DataFrame, polyp_ids: Mapping[str, frozenset[str]], read: list[ProcedureBoxes]
) -> Faults:
    faults = Faults()
    columns = videos.select("procedure_id", "n_frames", "num_lesions")
    for (procedure_id, n_frames, claimed), boxes in zip(columns.iter_rows(), read, strict=True):
        rows = len(polyp_ids.get(procedure_id, ()))
        if claimed is not None and claimed != rows:
            faults.warn(
                "num_lesions of video_info.csv is not the number of rows of lesion_info.csv, "
                "which counts",
                f"{procedure_id}: {claimed} and {rows}",
            )
        if boxes.n_files != n_frames:
            faults.warn(
                "num_frames of video_info.csv is not the number of annotation files",
                f"{procedure_id}: {n_frames} and {boxes.n_files}",
            )
        faults.add(boxes.faults)
    return faults


def read_tables(source: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read `video_info.csv` and `lesion_info.csv`, sites normalised.

    Args:
        source: The folder they are in.

    Returns:
        Procedures: procedure_id, age, sex, brand, fps, n_frames, num_lesions (as the file claims),
        bbps. Lesions: polyp_id, procedure_id, size_mm, location, histology (free text),
        histology_class. Rows in the order of the files.

    Raises:
        PolyplinkError: If a file or column is missing, or a value cannot be read.
    """
    ours = {**PROCEDURES, "num_lesions": Column(pl.Int32(), True, "number of lesions")}
    tables = []
    for name, columns, schema in (
        ("video_info.csv", VIDEO_INFO, ours),
        ("lesion_info.csv", LESION_INFO, POLYPS),
    ):
        path = source / name
        if not path.is_file():
            raise PolyplinkError(f"{path} is missing", "download it from the release of REAL-Colon")
        table = read_text_table(path)
        missing = [column for column in columns if column not in table.columns]
        if missing:
            raise PolyplinkError(
                f"{path} has no column {missing[0]!r}", "take the file as released, header included"
            )
        checked = check(table, {column: schema[columns[column]] for column in columns}, name)
        tables.append(checked.rename(columns))
    videos, lesions = tables
    return videos, lesions.with_columns(normalise_location(lesions["location"]))


def read_boxes(source: ProcedureSource, *, strict: bool) -> ProcedureBoxes:
    """Read all annotations of a procedure.

    Args:
        source: Which procedure, and where.
        strict: Whether faults are raised instead of left out and counted.

    Returns:
        Its boxes, edges rounded and clamped as in the exporter that the authors released, each
        box to its own frame's size.

    Raises:
        PolyplinkError: If there are no annotations or their archive is not whole, or, if strict,
            at the first file that is broken, box that cannot be used or is of an unknown polyp,
            and frame whose box has no image.
    """
    faults = Faults(strict)
    files: dict[int, str] = {}
    frames: dict[int, tuple[tuple[int, int], tuple[VocObject, ...]]] = {}
    for number, name, text in annotation_texts(source.annotations):
        files[number] = name
        try:
            size, objects = _parse_frame(text, f"{source.annotations}{os.sep}{name}")
            frames[number] = size, objects
        except PolyplinkError as error:
            if strict:
                raise
            faults.warn("annotation file that cannot be read, left out", error.what)
    if not frames:
        none = "annotation that can be read" if files else "annotations (*.xml)"
        raise PolyplinkError(f"{source.annotations} has no {none}", _AGAIN)
    first = frames[min(frames)][0]
    for number in sorted(number for number, (size, _) in frames.items() if size != first):
        faults.warn("frame of another size than the procedure's first", files[number])
    procedure = pl.DataFrame(
        {
            "procedure_id": [source.procedure_id],
            "n_frames": [LARGEST],  # a frame behind the table's number is counted, and kept
            "width": [first[0]],
            "height": [first[1]],
        }
    )
    boxes = check_boxes(box_table(_box_rows(source, files, frames, faults)), faults)
    boxes = fit_boxes(boxes, procedure, faults, border="pixels")
    unnamed = boxes.filter(pl.col("polyp_id").is_null())
    if unnamed.height:
        faults.warn("box without unique_id", unnamed["at"][0], unnamed.height)
    named = boxes.filter(pl.col("polyp_id").is_not_null())
    twice = named.filter(~pl.struct("frame", "polyp_id").is_first_distinct())
    if twice.height:
        kind = "further box of a polyp in one frame, both kept"
        faults.warn(kind, twice["at"][0], twice.height)
    return ProcedureBoxes(first, len(files), boxes, faults)


def _parse_frame(text: str, name: str) -> tuple[tuple[int, int], tuple[VocObject, ...]]:
    """Size and boxes of a frame. Most frames show no polyp: no tree is built for those."""
    if "<object" not in text and text.startswith("<annotation") and "<!" not in text:
        sides = _SIDE.findall(text)
        if len(sides) == 2 and text.rstrip().endswith("</annotation>"):
            width, height = dict(sides).get("width", "0"), dict(sides).get("height", "0")
            if 0 < int(width) <= LARGEST and 0 < int(height) <= LARGEST:
                return (int(width), int(height)), ()
    frame = parse_voc(text, name)
    if frame.size is None:
        raise PolyplinkError(f"{name} has no width and height from 1", _AGAIN)
    return frame.size, frame.objects


def _box_rows(
    source: ProcedureSource,
    files: Mapping[int, str],
    frames: Mapping[int, tuple[tuple[int, int], tuple[VocObject, ...]]],
    faults: Faults,
) -> pl.DataFrame:
    """The boxes of known polyps in frames with an image, in the columns that `box_table` takes."""
    images = _image_names(source.frames, files)
    rows = []
    for number, (size, objects) in sorted(frames.items()):
        for box in objects:
            at = files[number]
            if box.unique_id is not None and box.unique_id not in source.polyp_ids:
                faults.fault(
                    "box of a polyp that lesion_info.csv does not list for the procedure",
                    f"{source.annotations / at}, {box.unique_id}",
                    "add its row to lesion_info.csv",
                )
            elif source.frames is not None and number not in images:
                faults.fault(
                    "frame with a box without an image",
                    str(source.frames / Path(at).with_suffix(".jpg")),
                    "unpack the frames again, import without images",
                )
            else:
                named = (at, source.procedure_id, number, box.unique_id, images.get(number))
                rows.append((*named, *box.edges, *size))
    texts, numbers = ("at", "procedure_id"), ("left", "top", "right", "bottom", "width", "height")
    schema = {
        **dict.fromkeys(texts, pl.String),
        "frame": pl.Int64,
        **dict.fromkeys(("polyp_id", "image"), pl.String),
        **dict.fromkeys(numbers, pl.Float64),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def annotation_texts(place: Path) -> Iterator[tuple[int, str, str]]:
    """Read the annotation files of a procedure; an archive in one pass, without unpacking.

    Args:
        place: A folder, or a .tar.gz, .tar or .zip archive whose members lie in a folder or not.

    Yields:
        Frame number, file name and text; of a folder in the order of the numbers, of an archive
        in its own.

    Raises:
        PolyplinkError: If a file has no frame number or two have the same, or the archive is cut
            short or damaged.
    """
    if place.is_dir():
        prefix = f"{place}{os.sep}"
        for frame, name in _frame_files(place, ".xml").items():
            yield frame, name, _read_text(prefix + name)
        return

    def wanted(path: str) -> bool:
        return path.endswith(".xml") and not path.rpartition("/")[2].startswith(".")

    names: dict[int, str] = {}
    for path, data in read_members(place, wanted):
        name = path.rpartition("/")[2]
        frame = _add_frame(names, name, f"{place}{INSIDE}{name}", place)
        yield frame, name, data.decode("utf-8", "replace")


def _add_frame(names: dict[int, str], name: str, path: str, place: Path) -> int:
    """Put a file's name under its frame number."""
    found = _NUMBER.search(name)
    frame = -1 if found is None else int(found[1])
    if not 0 <= frame <= LARGEST:
        raise PolyplinkError(f"{path} has no frame number", "name it <procedure>_<frame>")
    if frame in names:
        raise PolyplinkError(
            f"{place} has two files for frame {frame} ({names[frame]}, {name})",
            "remove one of them",
        )
    names[frame] = name
    return frame


def _frame_files(folder: Path, suffix: str) -> dict[int, str]:
    """The files of a folder by frame number, in the order of the numbers, without hidden ones."""
    names: dict[int, str] = {}
    for name in os.listdir(folder):  # noqa: PTH208 - names alone: no path object for each frame
        if name.endswith(suffix) and not name.startswith("."):
            _add_frame(names, name, f"{folder}{os.sep}{name}", folder)
    return dict(sorted(names.items()))


def _read_text(path: str) -> str:
    """Read a small UTF-8 file through a bare descriptor, in half the time of a file object."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = os.read(descriptor, _READ_BYTES)
        while len(data) % _READ_BYTES == 0 and (more := os.read(descriptor, _READ_BYTES)):
            data += more
    except OSError as error:  # a bare descriptor has no name
        raise PolyplinkError(f"{path}: {error.strerror}", _AGAIN) from None
    finally:
        os.close(descriptor)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise PolyplinkError(f"{path} is not UTF-8 text", _AGAIN) from None


def _image_names(place: Path | None, annotations: Mapping[int, str]) -> dict[int, str]:
    """Images of a procedure by frame number, as the column `image` names them.

    A folder is listed. An archive is not, as that would be a pass over tens of gigabytes: it is
    assumed to hold an image for every annotation, and `prepare` reports where it has none.
    """
    if place is None:
        return {}
    if place.is_dir():
        files = _frame_files(place, ".jpg")
        return {frame: f"{place.name}/{name}" for frame, name in files.items()}
    start = f"{place.name}{INSIDE}"
    return {f: f"{start}{name.removesuffix('.xml')}.jpg" for f, name in annotations.items()}
