"""REAL-Colon as released: 60 procedures, 132 polyps, 2.76 million annotation files.

Source: Biffi et al., Scientific Data 2024, 11:539; its release (figshare 22202866):
`<procedure>_annotations/<procedure>_<frame>.xml` for every frame, `<procedure>_frames` with the
images, `video_info.csv` and `lesion_info.csv`. Reader and writer.

Images are optional: the annotations and the two tables are enough to build tracklets and to count.
Folders are listed once, files are read through file descriptors and archives in one pass, because
with this many files a microsecond per file is seconds of the import.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import polars as pl

from polyplink.core.artefacts import atomic_folder, read_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import csv_cell, file_name, xml_text
from polyplink.data.boxes import box_table, check_boxes, fit_boxes
from polyplink.data.faults import Faults
from polyplink.data.files.archives import read_members
from polyplink.data.files.folders import (
    check_is_folder,
    check_utf8,
    files_in,
    read_each,
    read_small,
)
from polyplink.data.files.image_names import member_name
from polyplink.data.files.text_tables import read_text_table
from polyplink.data.files.trees import decode_text
from polyplink.data.files.values import LARGEST, whole_number
from polyplink.data.formats.format import RELEASED, Format, ImportOptions
from polyplink.data.protocols import split_by_rule
from polyplink.data.sets import layout
from polyplink.data.sets.layout import Edges, Release
from polyplink.data.sets.voc import VocObject, parse_voc
from polyplink.data.tables import POLYPS, PROCEDURES, Column, DataSet, Imported, check
from polyplink.data.vocabulary import SIMULATED, normalise_location

DATASET = "real-colon"

_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")  # the first is the ending of the release
_NUMBER = re.compile(r"_(\d+)(?:\.0+)?\.[A-Za-z]+$")  # the release has `.0` in frames of 001-012
_AGAIN = "unpack the archive again"

# Column as released -> column of polyplink, which has no num_lesions.
VIDEO_INFO: Mapping[str, str] = {
    "unique_video_name": "procedure_id",
    "age": "age",
    "sex": "sex",
    "endoscope_brand": "brand",
    "fps": "fps",
    "num_frames": "n_frames",
    "num_lesions": "num_lesions",
    "bbps": "bbps",
}
LESION_INFO: Mapping[str, str] = {
    "unique_object_id": "polyp_id",
    "unique_video_name": "procedure_id",
    "size [mm]": "size_mm",
    "site": "location",
    "histology_extended": "histology",
    "histology_class": "histology_class",
}


class ProcedureSource(NamedTuple):
    """The annotations and images of one procedure, and its lesions."""

    procedure_id: str
    annotations: Path  # folder or archive of its XML files
    frames: Path | None  # folder or archive of its images; None if missing or not wanted
    polyp_ids: frozenset[str]  # its lesions


# Size of the first frame, number of annotation files (one for each frame), boxes in columns of
# `DETECTIONS` and in the order of the frames, faults.
ProcedureBoxes = tuple[layout.Size, int, pl.DataFrame, Faults]


def import_real_colon(source: Path, **options: Unpack[ImportOptions]) -> Imported:
    """Read a REAL-Colon folder into the three tables; archives are read without unpacking.

    Procedures are those with annotations, in the order of `video_info.csv`, each its own patient.
    The splits are those of `split_by_rule`. A `dataset.txt`, which polyplink's writers add and the
    release does not have, gives the data set another name than real-colon.

    Args:
        source: Folder with `video_info.csv`, `lesion_info.csv` and, for every procedure,
            `<procedure>_annotations.tar.gz` as downloaded, or the unpacked folder, which is
            preferred to the archive.
        options: See `ImportOptions`. Images are the procedure's `_frames`, archive or folder. A
            frame with a missing image loses its boxes, so that a tracklet is split there.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a folder, table or column is missing; if strict, at the first
            faulty file or box (see `read_boxes`).
    """
    # The procedures with annotations, and what the two tables say about them.
    check_is_folder(source)
    release = Release(DATASET, source, **options)
    annotations, frames = _places(release)
    videos, lesions = read_tables(source)
    unknown = sorted(set(annotations) - set(videos["procedure_id"]))
    if unknown:
        raise PolyplinkError(
            f"{source / 'video_info.csv'} has no row for {unknown[0]}",
            f"add the row, or move {annotations[unknown[0]].name} away",
        )
    videos = videos.filter(pl.col("procedure_id").is_in(list(annotations)))
    lesions = lesions.filter(pl.col("procedure_id").is_in(list(annotations)))

    # The boxes of each procedure, read by several processes.
    polyps = lesions.group_by("procedure_id").agg("polyp_id")
    polyp_ids = {name: frozenset(ids) for name, ids in polyps.iter_rows()}
    sources = [
        ProcedureSource(
            name,
            annotations[name],
            frames.get(name) if release.images else None,
            polyp_ids.get(name, frozenset()),
        )
        for name in videos["procedure_id"]
    ]
    read = read_each(
        partial(read_boxes, strict=release.strict),
        sources,
        workers=release.workers,
        progress=release.progress,
    )
    faults = release.faults
    _compare_numbers(videos, sources, read, faults)

    # The three tables.
    procedures = videos.with_columns(
        dataset=pl.lit(_dataset(source)),
        patient=pl.col("procedure_id"),
        width=pl.Series([size[0] for size, *_ in read], dtype=pl.Int32),
        height=pl.Series([size[1] for size, *_ in read], dtype=pl.Int32),
        source=pl.lit(str(source.resolve())),
    )
    splits = split_by_rule(videos["procedure_id"], set(lesions["procedure_id"]))
    data = DataSet.of(pl.concat(boxes for _, _, boxes, _ in read), procedures, lesions, splits)
    return Imported(data, faults.messages)


def _compare_numbers(
    videos: pl.DataFrame,
    sources: Sequence[ProcedureSource],
    read: Sequence[ProcedureBoxes],
    faults: Faults,
) -> None:
    """Warn of numbers of frames and polyps that differ from the files; add the faults of boxes."""
    stated_numbers = videos.select("n_frames", "num_lesions").iter_rows()
    for place, (n_frames, n_lesions), (_, n_files, _, box_faults) in zip(
        sources, stated_numbers, read, strict=True
    ):
        rows, name = len(place.polyp_ids), place.procedure_id
        if n_lesions not in (None, rows):
            numbers = {"name": name, "stated": n_lesions, "counted": rows}
            faults.warn(Message("import.num_lesions"), Message("place.numbers", numbers))
        if n_files != n_frames:
            numbers = {"name": name, "stated": n_frames, "counted": n_files}
            faults.warn(Message("import.num_frames"), Message("place.numbers", numbers))
        faults.add(box_faults)


def _places(release: Release) -> tuple[dict[str, Path], dict[str, Path]]:
    """The folder or archive of annotations, and of frames, by procedure."""
    annotations: dict[str, Path] = {}
    frames: dict[str, Path] = {}
    for path in files_in(release.source):  # a folder comes before its archive
        ending = next((end for end in _ARCHIVES if path.name.endswith(end)), "")
        name, _, kind = path.name.removesuffix(ending).rpartition("_")
        before = annotations.get(name)
        if kind == "frames" and (ending or path.is_dir()):
            frames.setdefault(name, path)
        elif kind not in ("annotations", "annotation") or name[:1] in ("", "."):
            continue
        elif before is None:
            annotations[name] = path
        elif path.is_dir() or not before.is_dir():
            raise PolyplinkError(
                f"{path} and {before} are of the same procedure", "remove one of them"
            )
    if not annotations:
        missing = "<procedure>_annotations.tar.gz, nor a folder <procedure>_annotations"
        raise release.nothing_found(missing)
    return annotations, frames


def _dataset(source: Path) -> str:
    """Name of the data set in this layout, from `dataset.txt` or the simulator's run.json.

    The release has neither file. The name of a simulated data set contains preset and seed, because
    procedures of two seeds differ but have the same ids.
    """
    path, run = source / layout.DATASET_FILE, source / "run.json"
    if path.is_file() and (text := decode_text(path.read_bytes(), str(path)).strip()):
        return text
    record = read_json(run) if run.is_file() else {}
    if not isinstance(record, Mapping) or record.get("command") != "simulate":
        return DATASET
    settings = record.get("settings")
    name = settings.get("name") if isinstance(settings, Mapping) else None
    return simulated_name(str(name or "?"), record.get("seed"))


def simulated_name(preset: str, seed: int | None) -> str:
    """The name of a simulated data set, from its preset and seed."""
    return f"{SIMULATED} {preset} {seed}"


def read_tables(source: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read `video_info.csv` and `lesion_info.csv`, with locations normalised.

    Args:
        source: Folder of the files.

    Returns:
        Procedures: procedure_id, age, sex, brand, fps, n_frames, num_lesions (as stated),
        bbps. Lesions: polyp_id, procedure_id, size_mm, location, histology (free text),
        histology_class. Rows in the order of the files.

    Raises:
        PolyplinkError: If a file or column is missing, or a value cannot be read.
    """
    procedure_columns = {**PROCEDURES, "num_lesions": Column(pl.Int32(), True, "number of lesions")}
    tables = []
    for name, columns, schema in (
        ("video_info.csv", VIDEO_INFO, procedure_columns),
        ("lesion_info.csv", LESION_INFO, POLYPS),
    ):
        path = source / name
        if not path.is_file():
            raise PolyplinkError(f"{path} is missing", "download it from the release of REAL-Colon")
        table = read_text_table(path, columns)
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
        source: The procedure's files.
        strict: Whether faults are raised instead of left out and counted.

    Returns:
        See `ProcedureBoxes`; edges are rounded and clamped to the size of each frame, as in the
        exporter released by the authors.

    Raises:
        PolyplinkError: If there are no annotations or their archive is incomplete; if strict, at
            the first broken file, unusable box, box of an unknown polyp, or box without an image.
    """
    faults = Faults(strict)
    folder = source.frames
    # A folder of images is listed. An archive is not, because this would be a pass over tens of
    # gigabytes: an image is assumed for every annotation; `prepare` reports missing ones.
    listed = _frame_files(folder, ".jpg") if folder is not None and folder.is_dir() else None

    # Boxes of polyps that are listed, in frames that exist.
    files: dict[int, str] = {}
    sizes: dict[int, layout.Size] = {}
    rows: list[tuple[Any, ...]] = []
    for number, name, text in annotation_texts(source.annotations):
        files[number] = name
        try:
            sizes[number], objects = _parse_frame(text, f"{source.annotations}{os.sep}{name}")
        except PolyplinkError as error:
            if strict:
                raise
            faults.warn(Message("import.broken_annotation"), error.what)
            continue
        jpeg = name.removesuffix(".xml") + ".jpg"
        for box in objects:
            image = None
            if box.unique_id is not None and box.unique_id not in source.polyp_ids:
                faults.fault(
                    Message("import.unlisted_polyp"),
                    f"{source.annotations / name}, {box.unique_id}",
                    "add its row to lesion_info.csv",
                )
                continue
            if folder is not None and listed is not None and number not in listed:
                hint = "unpack the frames again, import without images"
                faults.fault(Message("import.boxed_without_image"), str(folder / jpeg), hint)
                continue
            if folder is not None:
                in_archive = member_name(folder.name, jpeg)
                image = in_archive if listed is None else f"{folder.name}/{listed[number]}"
            key = (name, source.procedure_id, number, box.unique_id, image)
            rows.append((*key, *box.edges, *sizes[number]))
    if not sizes:
        none = "annotation that can be read" if files else "annotations (*.xml)"
        raise PolyplinkError(f"{source.annotations} has no {none}", _AGAIN)

    # The boxes as a table, checked.
    first_size = sizes[min(sizes)]
    for number in sorted(number for number, size in sizes.items() if size != first_size):
        faults.warn(Message("import.frame_of_other_size"), files[number])
    texts = ("at", "procedure_id", "frame", "polyp_id", "image")
    schema: dict[str, Any] = dict.fromkeys(texts, pl.String) | {"frame": pl.Int64}
    edges = ("left", "top", "right", "bottom", "width", "height")
    schema |= dict.fromkeys(edges, pl.Float64)
    table = pl.DataFrame(rows, schema=schema, orient="row").sort("frame", maintain_order=True)
    # Frames beyond the number in video_info.csv are only reported by the caller: no limit here.
    size = {"n_frames": [LARGEST], "width": [first_size[0]], "height": [first_size[1]]}
    procedure = pl.DataFrame({"procedure_id": [source.procedure_id], **size})
    boxes = check_boxes(box_table(table), faults)
    boxes = fit_boxes(boxes, procedure, faults, border="pixels")
    polyp = pl.col("polyp_id")
    faults.warn_rows(Message("import.no_unique_id"), boxes.filter(polyp.is_null()))
    repeated = polyp.is_not_null() & ~pl.struct("frame", "polyp_id").is_first_distinct()
    kind = Message("import.second_box")
    faults.warn_rows(kind, boxes.filter(repeated))
    return first_size, len(files), boxes, faults


def _parse_frame(text: str, name: str) -> tuple[layout.Size, tuple[VocObject, ...]]:
    """The size and the boxes in the XML of a frame."""
    size, objects = parse_voc(text, name)
    if size is None:
        raise PolyplinkError(f"{name} has no width and height from 1", _AGAIN)
    return size, objects


def annotation_texts(place: Path) -> Iterator[tuple[int, str, str]]:
    """Read the annotation files of a procedure; an archive in one pass, without unpacking.

    Args:
        place: A folder, or a .tar.gz, .tar or .zip archive with members in a folder or not.

    Yields:
        Frame number, file name, and text (invalid UTF-8 replaced); from a folder in the order of
        the numbers, from an archive in the archive's order.

    Raises:
        PolyplinkError: If a file has no frame number or two have the same, or the archive is cut
            short or damaged.
    """
    if place.is_dir():
        prefix = f"{place}{os.sep}"
        for frame, name in _frame_files(place, ".xml").items():
            yield frame, name, read_small(prefix + name).decode("utf-8", "replace")
        return

    def is_annotation(path: str) -> bool:
        return path.endswith(".xml") and not path.rpartition("/")[2].startswith(".")

    names: dict[int, str] = {}
    for path, data in read_members(place, is_annotation):
        name = check_utf8(path.rpartition("/")[2], place)
        frame = _add_frame(names, name, member_name(str(place), name), place)
        yield frame, name, data.decode("utf-8", "replace")


def _add_frame(names: dict[int, str], name: str, path: str, place: Path) -> int:
    """Add a file's name under its frame number, and return the number."""
    match = _NUMBER.search(name)
    frame = None if match is None else whole_number(match[1])
    if frame is None:
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
        if name.endswith(suffix) and not check_utf8(name, folder).startswith("."):
            _add_frame(names, name, f"{folder}{os.sep}{name}", folder)
    return dict(sorted(names.items()))


def annotations_folder(procedure_id: str) -> str:
    """Name of the folder of a procedure's XML files."""
    return f"{file_name(procedure_id, exact=True)}_annotations"


def frames_folder(procedure_id: str) -> str:
    """Name of the folder of a procedure's images."""
    return f"{file_name(procedure_id, exact=True)}_frames"


def frame_stem(procedure_id: str, frame: int) -> str:
    """Name of a frame's files without ending: not zero-padded, counted from 0."""
    return f"{procedure_id}_{frame}"


def format_voc(
    folder: str, filename: str, size: tuple[int, int], boxes: Sequence[tuple[str | None, Edges]]
) -> str:
    """Write a frame's XML with the fields in the order of the release.

    Args:
        folder: Name of the folder of the procedure's images.
        filename: Name of the frame's image.
        size: Width and height of the frame, pixels.
        boxes: Polyp and edges of each box; whole coordinates are written without a decimal point.

    Returns:
        The text of the file, with a newline at the end.
    """
    objects = []
    for box_id, (polyp_id, edges) in enumerate(boxes, 1):
        left, top, right, bottom = (int(e) if e == int(e) else e for e in edges)
        polyp = "" if polyp_id is None else f"\t\t<unique_id>{xml_text(polyp_id)}</unique_id>\n"
        objects.append(
            "\t<object>\n"
            "\t\t<name>lesion</name>\n"
            f"{polyp}"
            f"\t\t<box_id>{box_id}</box_id>\n"
            "\t\t<bndbox>\n"
            f"\t\t\t<xmin>{left!r}</xmin>\n"
            f"\t\t\t<xmax>{right!r}</xmax>\n"
            f"\t\t\t<ymin>{top!r}</ymin>\n"
            f"\t\t\t<ymax>{bottom!r}</ymax>\n"
            "\t\t</bndbox>\n"
            "\t</object>\n"
        )
    return (
        "<annotation>\n"
        "\t<version_fmt>1.0</version_fmt>\n"
        f"\t<folder>{xml_text(folder)}</folder>\n"
        f"\t<filename>{xml_text(filename)}</filename>\n"
        "\t<source>\n"
        "\t\t<database>cosmoimd</database>\n"
        "\t\t<release>v1.0_20230228</release>\n"
        "\t</source>\n"
        "\t<size>\n"
        f"\t\t<width>{size[0]}</width>\n"
        f"\t\t<height>{size[1]}</height>\n"
        "\t\t<depth>3</depth>\n"
        "\t</size>\n"
        f"{''.join(objects)}"
        "</annotation>\n"
    )


def format_annotations(
    procedure: Mapping[str, Any], detections: pl.DataFrame, *, suffix: str = ""
) -> Iterator[tuple[str, str]]:
    """The annotation files of a procedure, one for every frame.

    Args:
        procedure: Its row of the table procedures.
        detections: Its boxes.
        suffix: Text after the frame number in file names; the release has `.0` in 001-012.

    Yields:
        Name of a file without its ending, and its text.

    Raises:
        PolyplinkError: If a box is beyond the last frame.
    """
    name, n_frames = procedure["procedure_id"], procedure["n_frames"]
    boxes: defaultdict[int, list[tuple[str | None, Edges]]] = defaultdict(list)
    columns = detections.select("frame", "polyp_id", "x", "y", "w", "h")
    for frame, polyp_id, x, y, w, h in columns.iter_rows():
        boxes[frame].append((polyp_id, (x, y, x + w, y + h)))
    beyond = [frame for frame in boxes if not 0 <= frame < n_frames]
    if beyond:
        raise PolyplinkError(
            f"procedure {name}: a box in frame {beyond[0]} of {n_frames}",
            "correct n_frames, or leave the box out",
        )
    size = procedure["width"], procedure["height"]
    for frame in range(n_frames):
        stem = frame_stem(name, frame) + suffix
        yield stem, format_voc(frames_folder(name), f"{stem}.jpg", size, boxes.get(frame, ()))


def write_real_colon(data: DataSet, root: Path, *, keep: bool = False) -> None:
    """Write the annotations of every procedure, then the two tables.

    Scores, image paths, Paris classes and patients have no field in the release and are left out.

    Args:
        data: The data set.
        root: Folder to write into; created if absent.
        keep: Leave existing annotation folders unchanged (for a resumed run, which records the name
            of the data set itself).

    Raises:
        PolyplinkError: If an annotation folder exists and `keep` is not set, a box is beyond its
            procedure's last frame, or procedures are of several data sets.
    """
    if not keep:
        layout.write_dataset_name(data, root, "real-colon")
    boxes = data.detections.partition_by("procedure_id", as_dict=True)
    for procedure in data.procedures.iter_rows(named=True):
        name = procedure["procedure_id"]
        target = root / annotations_folder(name)
        if not (keep and target.is_dir()):
            with atomic_folder(target) as folder:
                detections = boxes.get((name,), data.detections.clear())
                for stem, text in format_annotations(procedure, detections):
                    (folder / f"{stem}.xml").write_bytes(text.encode())
    write_tables(data, root)


def write_tables(data: DataSet, root: Path) -> None:
    """Write `video_info.csv` and `lesion_info.csv`, rows in the order of the data set's tables.

    Texts are quoted and numbers are not, as in the release; null is an empty field. The number of
    lesions is counted from the polyps.

    Args:
        data: The data set.
        root: Folder to write into; created if absent.
    """

    def cell(value: str | float | None) -> str:
        """A value as in the release: quoted text, shortest number, or nothing for null."""
        if isinstance(value, str):
            return '"' + str(csv_cell(value)).replace('"', '""') + '"'
        if isinstance(value, float):
            return layout.short_number(value)
        return "" if value is None else str(value)

    lesions = data.polyps.group_by("procedure_id").len(name="num_lesions")
    videos = data.procedures.join(lesions, on="procedure_id", how="left", maintain_order="left")
    videos = videos.with_columns(pl.col("num_lesions").fill_null(0))
    for name, table, columns in (
        ("video_info.csv", videos, VIDEO_INFO),
        ("lesion_info.csv", data.polyps, LESION_INFO),
    ):
        rows = [tuple(columns), *table.select(columns.values()).iter_rows()]
        write_text(root / name, "".join(",".join(map(cell, row)) + "\n" for row in rows))


REAL_COLON = Format(
    import_real_colon, write_real_colon, (*RELEASED, "sides", "patients", "morphology")
)
