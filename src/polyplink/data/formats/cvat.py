"""CVAT for video 1.1: tracks of boxes as XML, plain or in the archives that CVAT exports.

Source: docs.cvat.ai, XML annotation format. Frames are numbered as in the video, from 0; a box has
`outside="1"` on the frame from which its track is not visible; CVAT interpolates the boxes between
key frames when it exports.
"""

import re
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Unpack
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import file_name, xml_text
from polyplink.data.faults import Faults, leave_out, place_text
from polyplink.data.files.archives import Archive
from polyplink.data.files.folders import check_is_there
from polyplink.data.files.image_names import member_name
from polyplink.data.files.trees import walk_files
from polyplink.data.files.values import LARGEST, whole_number
from polyplink.data.formats.assemble import (
    BoxImport,
    ReadOptions,
    assemble,
    no_number,
    number,
    read_tables,
    source_folder,
)
from polyplink.data.formats.format import Format
from polyplink.data.formats.side_tables import write_side_tables
from polyplink.data.tables import PROCEDURES, DataSet, Imported

POLYP, SCORE, LABEL = "polyp_id", "score", "polyp"  # attributes of a box, and its label
_MEMBER = "annotations.xml"
_MEND = "export the task again as CVAT for video 1.1"
_ROWS = 100_000  # shapes that are held as Python strings at a time
_BLOCK = 1 << 23  # bytes that are read at once; a document type is in the first block
_SHAPES = {"box", "polygon", "polyline", "points", "mask", "ellipse", "cuboid", "skeleton"}
_EDGES = ("xtl", "ytl", "xbr", "ybr")
_OF_SHAPE = ("outside", "frame", "rotation", *_EDGES)  # XML attributes of a shape that are read
_COLUMNS = ("task", "track", "label", "tag", *_OF_SHAPE, POLYP, SCORE)
_POINT = r"-?\d+(?:\.\d+)?,-?\d+(?:\.\d+)?"
_POLYGON = re.compile(rf"{_POINT}(?:;{_POINT}){{2,}}", re.ASCII)
_Source = tuple[Path, str | None]  # an XML file, or an archive and its XML member


def import_cvat(
    source: Path,
    *,
    attribute: str = POLYP,
    **options: Unpack[ReadOptions],
) -> Imported:
    """Read tracks of boxes and polygons; every task is a procedure with the task's name.

    Boxes with `outside="1"` are skipped: the track is not visible there, so a tracklet ends. Boxes
    between key frames are used as exported; a polygon is read as the box around it. Frames are
    numbered as in the video, from 0.

    Args:
        source: An XML file, the archive as exported, or a folder of either.
        attribute: Attribute of the boxes that names the polyp; if it is empty, the polyp is
            unknown.
        options: See `ReadOptions`. Images are searched for in the archive, or next to the file,
            as is a video named as the task or its source.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a file is broken or of another format, two tasks have the same name, or
            no box has the attribute, unless it is the default; if strict, at the first fault.
    """
    reading = BoxImport(source, **options)
    folder = source_folder(source)
    read = partial(_read, root=folder, attribute=attribute, strict=reading.strict)
    boxes, procedures = read_tables(read, _find_files(source), reading)
    reading.faults.check_some_usable(boxes, boxes.height + reading.faults.n_left_out)
    if attribute != POLYP and not boxes.is_empty() and boxes["track"].null_count() == 0:
        raise PolyplinkError(
            f"no box in {source} has an attribute {attribute!r}",
            "give the name of an attribute as in CVAT's labels, or leave out --attribute",
        )
    repeated = procedures.filter(pl.col("procedure_id").is_duplicated())["procedure_id"]
    if repeated.len():
        raise PolyplinkError(
            f"two tasks are called {repeated[0]!r}", "give every task its own name in CVAT"
        )
    reading.faults.warn_values("import.labels", boxes["label"])
    return assemble(boxes, folder, reading, procedures=procedures)


def _find_files(source: Path) -> list[_Source]:
    """The XML files and archives of a source."""
    check_is_there(source)
    if source.is_file():
        return [_source(source)]
    paths = sorted(source / name for name in walk_files(source))
    sources = [_source(p) for p in paths if p.suffix.lower() in {".xml", ".zip"} and p.is_file()]
    if not sources:
        raise PolyplinkError(
            f"{source} has no *.xml and no *.zip", "give an export of CVAT as CVAT for video 1.1"
        )
    return sources


def _source(path: Path) -> _Source:
    """An XML file, or an archive with its annotations."""
    if path.suffix.lower() != ".zip":
        return path, None
    members = [n for n in Archive(path).names if n.rpartition("/")[2] == _MEMBER]
    if not members:
        raise PolyplinkError(f"{path} has no {_MEMBER}", "export it as CVAT for video 1.1")
    return path, members[0]


def _parse(
    stream: IO[bytes], name: str, attribute: str
) -> tuple[list[dict[str, str]], pl.DataFrame]:
    """Read the fields of each task (name, size, stop_frame, width, source ...), and all shapes.

    XML elements of shapes are dropped as soon as they are read. A document type is refused, so that
    no entity is expanded and no other file is opened.

    Args:
        stream: The file.
        name: Name of the file, for messages.
        attribute: Attribute of boxes that names the polyp.

    Returns:
        The tasks; `_COLUMNS` of each shape of a track as text, null if missing.
    """
    head = stream.read(_BLOCK)
    if b"<!DOCTYPE" in head.replace(b"\0", b""):  # UTF-16 has a null in each letter
        raise PolyplinkError(f"{name} has a document type, which is not read", _MEND)
    stream.seek(0)

    tasks: list[dict[str, str]] = []
    schema = dict.fromkeys(_COLUMNS, pl.String)
    shapes: list[list[Any]] = []
    tables = [pl.DataFrame(schema=schema)]

    def flush() -> None:
        """Move the shapes that were read into a table, which takes far less memory."""
        tables.append(pl.DataFrame(shapes, schema=schema, orient="row"))
        shapes.clear()

    open_elements: list[ET.Element] = []
    track: list[str | None] = []
    try:
        for event, element in _events(stream):
            if event == "start":
                if not open_elements and element.tag != "annotations":
                    problem = f"{name} is not of CVAT: its root is <{element.tag}>"
                    raise PolyplinkError(problem, _MEND)
                open_elements.append(element)
                if element.tag == "track":
                    track_key = element.get("task_id"), element.get("id", "")
                    track = [*track_key, element.get("label", "")]
                continue
            open_elements.pop()
            parent = open_elements[-1] if open_elements else element
            if element.tag == "image":
                raise PolyplinkError(
                    f"{name} was exported as CVAT for images",
                    "export the task as CVAT for video 1.1",
                )
            if element.tag == "meta":
                tasks += _tasks(element)
            elif parent.tag == "track" and element.tag in _SHAPES:
                shapes.append([*track, *_shape(element, attribute)])
                parent.clear()  # a track may hold millions of shapes
                if len(shapes) == _ROWS:
                    flush()
            elif element.tag == "track":
                parent.clear()
    except (ET.ParseError, ValueError, LookupError) as error:  # the latter two: its encoding
        raise PolyplinkError(f"{name} is not valid XML ({error})", _MEND) from None
    flush()
    return tasks, pl.concat(tables).with_columns(pl.col(SCORE).str.strip_chars())


def _shape(element: ET.Element, attribute: str) -> list[str | None]:
    """Tag, `_OF_SHAPE`, polyp and score of a shape; a polygon is the box around it."""
    tag, values = element.tag, [element.get(name) for name in _OF_SHAPE]
    points = element.get("points", "")
    if tag == "polygon" and _POLYGON.fullmatch(points):
        sides = np.array([point.split(",") for point in points.split(";")], float)  # n 2
        tag, values[-len(_EDGES) :] = "box", map(str, [*sides.min(axis=0), *sides.max(axis=0)])
    texts = {a.get("name"): a.text or "" for a in element if a.tag == "attribute"}
    return [tag, *values, texts.get(attribute), texts.get(SCORE)]


def _events(stream: IO[bytes]) -> Iterator[tuple[str, ET.Element]]:
    """The starts and ends of all elements of an XML file."""
    parser: Any = ET.XMLPullParser(("start", "end"))
    while block := stream.read(_BLOCK):
        parser.feed(block)
        yield from parser.read_events()
    parser.close()
    yield from parser.read_events()


def _tasks(meta: ET.Element) -> list[dict[str, str]]:
    """The fields of each task in a file's meta element; the last also has the fields next to it."""

    def text(element: ET.Element) -> str:
        """Its text, of a name with the blanks around it, which `write_cvat` writes as they are."""
        return (element.text or "") if element.tag == "name" else (element.text or "").strip()

    tasks = []
    for task in (element for element in meta.iter() if element.tag in {"task", "job"}):
        fields = [*task, *task.findall("original_size/*")]
        tasks.append({field.tag: text(field) for field in fields if text(field)})
    for field in meta if tasks else ():
        tasks[-1].setdefault(field.tag, text(field))
    return tasks


def _read(
    source: _Source, root: Path, attribute: str, strict: bool
) -> tuple[Faults, pl.DataFrame, pl.DataFrame]:
    """One file: faults, boxes with their label, and rows of procedures."""
    # The tasks and shapes of the file, and the images of an archive.
    faults = Faults(strict)
    path, member = source
    images = {}  # frame -> `images/frame_000012.PNG` of the archive
    if member is None:
        name = path.name
        with path.open("rb") as stream:
            tasks, shapes = _parse(stream, name, attribute)
    else:
        name = member_name(path.name, member)
        archive = Archive(path)
        content = dict(archive.read([member]))[member]
        tasks, shapes = _parse(BytesIO(content), name, attribute)
        for frame_file in archive.names:
            stem = frame_file.rpartition("/")[2].rpartition(".")[0].rpartition("_")[2]
            frame_number = whole_number(stem)
            if frame_file.lower().endswith((".png", ".jpg", ".jpeg")) and frame_number is not None:
                images[frame_number] = member_name(path.relative_to(root).as_posix(), frame_file)
    if not tasks:
        faults.warn(Message("import.no_task"), name)
        tasks = [{}]

    # A procedure for each task.
    rows, video_names = [], []
    for task in tasks:
        procedure_id = task.get("name") or path.stem
        last, sides = whole_number(task.get("stop_frame", "")), ("width", "height")
        # `size` counts the annotated frames, `stop_frame` the frames of the video.
        n_frames = whole_number(task.get("size", "")) if last is None else min(last + 1, LARGEST)
        size = {side: whole_number(task.get(side, "")) for side in sides}
        rows.append({"procedure_id": procedure_id, "n_frames": n_frames, **size})
        video_names.append(task.get("source", path.stem))
    procedures = pl.DataFrame(rows, schema={name: PROCEDURES[name].dtype for name in rows[0]})
    procedures = procedures.with_columns(
        video_folder=pl.lit(str(path.parent)), video_name=pl.Series(video_names, dtype=pl.String)
    )

    # Procedure and image of each box.
    procedure = pl.lit(procedures["procedure_id"][0])
    if len(tasks) > 1:
        of_task = {}
        for task, procedure_id in zip(tasks, procedures["procedure_id"], strict=True):
            if "id" in task:
                of_task[task["id"]] = procedure_id
        procedure = pl.col("task").replace_strict(of_task, default=None, return_dtype=pl.String)
    frame = pl.col("frame").cast(pl.Int64, strict=False)
    image = pl.lit(None, dtype=pl.String)
    if images:
        image = frame.replace_strict(images, default=None, return_dtype=pl.String)
    boxes = _boxes(shapes, name, faults).with_columns(procedure_id=procedure)
    return faults, boxes.with_columns(image=image).drop("task"), procedures


def _boxes(shapes: pl.DataFrame, name: str, faults: Faults) -> pl.DataFrame:
    """The visible boxes, with columns of `BOXES`, task and label."""
    frame = pl.col("frame").fill_null("?")
    at = place_text("place.track", file=pl.lit(name), track="track", frame=frame)
    table = shapes.filter(pl.col("outside").fill_null("0") != "1").with_columns(at=at)
    kind, hint = Message("import.not_a_box"), "draw boxes (rectangles)"
    table = leave_out(table, pl.col("tag") != "box", kind, hint, faults)
    kind, hint = Message("import.score_text"), "write a number, or nothing"
    table = leave_out(table, no_number(SCORE), kind, hint, faults)
    rotated = table.filter(number("rotation").fill_null(0) != 0)
    faults.warn_rows(Message("import.rotated"), rotated)
    polyp = pl.col(POLYP).str.strip_chars()
    with_blanks = table.filter((polyp != "") & (polyp != pl.col(POLYP)))
    faults.warn_rows(Message("import.blanks_of_polyp"), with_blanks)
    left, top, right, bottom = (number(edge) for edge in _EDGES)
    return table.select(
        "at",
        "task",
        "label",
        number("frame"),
        number(SCORE).alias("score"),
        pl.when(polyp != "").then(polyp).alias("polyp_id"),
        left=left,
        top=top,
        right=right,
        bottom=bottom,
        # An attribute that exists but is empty means that the polyp is unknown.
        track=pl.when(polyp.is_null()).then("track"),
    )


def write_cvat(data: DataSet, root: Path) -> None:
    """Write `<procedure>.xml`, which `import_cvat` and CVAT (upload annotations) can read.

    A track holds the boxes of one polyp; a second box of the polyp in a frame goes into another
    track. A track is closed by a box with `outside="1"` in the first frame of every gap. Polyp and
    score are attributes of a box, empty if unknown. Facts are written into `polyps.csv` and
    `procedures.csv`. Lost: the order of boxes in a frame, images, splits, blanks around polyp ids.

    Args:
        data: The data set.
        root: Folder to write into; created if absent.
    """
    # The boxes by track, the numbers of which count from 0 in each procedure.
    key = ["procedure_id", "track"]
    frame = pl.col("frame")
    nth = pl.int_range(pl.len()).over("procedure_id", "frame", "polyp_id")
    track = pl.struct("polyp_id", "nth").rank("dense").over("procedure_id").cast(pl.Int64) - 1
    boxes = data.detections.with_columns(nth=nth).with_columns(track=track)
    boxes = boxes.sort(*key, "frame", maintain_order=True)
    boxes = boxes.join(data.procedures.select("procedure_id", "n_frames"), on="procedure_id",
                       how="left", maintain_order="left")  # fmt: skip

    # The element of each box; after the last box before a gap, one that closes the track.
    x, y, w, h = (pl.col(side).cast(pl.Float64) for side in "xywh")
    shape = (
        'occluded="0" xtl="{}" ytl="{}" xbr="{}" ybr="{}">'
        f'<attribute name="{POLYP}">{{}}</attribute><attribute name="{SCORE}">{{}}</attribute>'
        "</box>\n"
    )
    polyp = pl.col("polyp_id").fill_null("")
    polyp = polyp.str.replace_many(["&", "<", ">"], ["&amp;", "&lt;", "&gt;"])
    score = pl.col("score").cast(pl.String).fill_null("")
    box = '<box frame="{}" keyframe="1" outside="{}" {}'
    following = frame.shift(-1, fill_value=-1).over(key)
    ends = (following != frame + 1) & (frame < pl.col("n_frames") - 1)
    boxes = boxes.with_columns(shape=pl.format(shape, x, y, x + w, y + h, polyp, score), ends=ends)
    open_shape = pl.format(box, frame, 0, "shape")
    text = (
        pl.when("ends")
        .then(open_shape + pl.format(box, frame + 1, 1, "shape"))
        .otherwise(open_shape)
    )

    # The elements of each track, and the tracks of each procedure.
    tracks = boxes.group_by(key, maintain_order=True).agg(text=text.str.join(""))
    start = f'<track id="{{}}" label="{LABEL}" source="manual">\n{{}}</track>\n'
    tracks = tracks.group_by("procedure_id").agg(pl.format(start, "track", "text").str.join(""))
    texts = dict(tracks.iter_rows())

    # A file for each procedure, with a task of this name.
    attributes = "".join(
        f"<attribute><name>{name}</name><mutable>True</mutable><input_type>text</input_type>"
        "<default_value/><values/></attribute>"
        for name in (POLYP, SCORE)
    )
    for task, row in enumerate(data.procedures.iter_rows(named=True)):
        write_text(
            root / f"{file_name(row['procedure_id'])}.xml",
            '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n<version>1.1</version>\n<meta>'
            f"<task>\n<id>{task}</id>\n<name>{xml_text(row['procedure_id'])}</name>\n"
            f"<size>{row['n_frames']}</size>\n<mode>interpolation</mode>\n<overlap>0</overlap>\n"
            f"<start_frame>0</start_frame>\n<stop_frame>{row['n_frames'] - 1}</stop_frame>\n"
            f"<frame_filter/>\n<labels><label><name>{LABEL}</name><attributes>{attributes}"
            f"</attributes></label></labels>\n<original_size><width>{row['width']}</width>"
            f"<height>{row['height']}</height></original_size>\n</task></meta>\n"
            f"{texts.get(row['procedure_id'], '')}</annotations>\n",
        )
    write_side_tables(data, root)


CVAT = Format(import_cvat, write_cvat, ("images", "splits", "blanks of polyps"))
