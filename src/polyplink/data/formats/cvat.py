"""CVAT for video 1.1: tracks of boxes as XML, in the archives that CVAT exports or not.

Source: docs.cvat.ai, XML annotation format. Frames are those of the video, from 0; a box has
`outside="1"` on the frame from which its track is not seen; the boxes between key frames are as
CVAT interpolated them when it exported.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import quote
from xml.parsers import expat
from xml.sax.saxutils import escape

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import box_table
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.archives import ZipArchive
from polyplink.data.files.folders import files_below, video_beside
from polyplink.data.formats.assemble import (
    Found,
    Options,
    ReadOptions,
    assemble,
    read_tables,
    source_folder,
)
from polyplink.data.formats.text import no_number, number, write_side_tables
from polyplink.data.tables import PROCEDURES, DataSet, Imported

POLYP, SCORE, LABEL = "polyp_id", "score", "polyp"  # attributes of a box, and its label
_MEMBER = "annotations.xml"
_MEND = "export the task again as CVAT for video 1.1"
_BLOCK = 1 << 20  # bytes parsed at a time
_SHAPES = {"box", "polygon", "polyline", "points", "mask", "ellipse", "cuboid", "skeleton"}
_EDGES = ("xtl", "ytl", "xbr", "ybr")
_OF_SHAPE = ("outside", "frame", "rotation", *_EDGES)  # the shape's own attributes that are read
_COLUMNS = ("task", "track", "label", "tag", *_OF_SHAPE, POLYP, SCORE)


_Source = tuple[Path, str | None]  # an XML file, or an archive and the member that is one


def import_cvat(
    source: Path,
    *,
    attribute: str = POLYP,
    **options: Unpack[ReadOptions],
) -> Imported:
    """Read tracks of boxes; every task is a procedure under its name.

    A box with `outside="1"` is not one: its track is not seen there, so that a tracklet ends. Boxes
    between key frames are used as exported. Frames are those of the video, from 0.

    Args:
        source: An XML file, the archive as exported, or a folder of either.
        attribute: The boxes' attribute that names the polyp; where it is empty, none is known.
        options: See `ReadOptions`. Images are looked for in the archive, or beside the file, where
            the task's video may be instead.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a file is broken or of another format, or two tasks have one name; if
            strict, at the first fault.
    """
    given = Options(**options)
    folder = source_folder(source)
    read = partial(_read, root=folder, attribute=attribute, options=given)
    faults = Faults(given.strict)
    boxes, procedures = read_tables(read, _find_files(source), given, faults)
    twice = procedures.filter(pl.col("procedure_id").is_duplicated())["procedure_id"]
    if twice.len():
        raise PolyplinkError(
            f"two tasks are called {twice[0]!r}", "give every task its own name in CVAT"
        )
    faults.warn_values("label of tracks, all taken as polyps", boxes["label"])
    return assemble(Found(box_table(boxes), procedures), folder, source.stem, given, faults)


def _find_files(source: Path) -> list[_Source]:
    if source.is_file():
        return [_source(source)]
    if not source.is_dir():
        raise PolyplinkError(f"no file or folder {source}", "check the path")
    paths = [p for p in sorted(files_below(source)) if p.suffix.lower() in {".xml", ".zip"}]
    found = [_source(p) for p in paths if p.is_file() and p.name[0] != "."]
    if not found:
        raise PolyplinkError(
            f"{source} has no *.xml and no *.zip", "give what CVAT exported as CVAT for video 1.1"
        )
    return found


def _source(path: Path) -> _Source:
    if path.suffix.lower() != ".zip":
        return path, None
    members = [n for n in ZipArchive(path).names() if n.rpartition("/")[2] == _MEMBER]
    if not members:
        raise PolyplinkError(f"{path} has no {_MEMBER}", "export it as CVAT for video 1.1")
    return path, members[0]


@dataclass
class _Parser:
    """The handlers of the XML parser, and what they have collected, every value as text.

    Attributes:
        name: The file's name, for messages.
        attribute: The attribute of boxes that names the polyp.
        tasks: For each task the texts of its fields (name, size, stop_frame, width, source ...).
        shapes: Values of `_COLUMNS` for each shape of a track; None where absent.
        path: Tags that are open.
        text: Text of the current element.
        track: Attributes of the current track.
        column: Index in `_COLUMNS` that the current `<attribute>` goes to, if it is needed.
    """

    name: str
    attribute: str
    tasks: list[dict[str, str]] = field(default_factory=list)
    shapes: list[list[str | None]] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    track: dict[str, str] | None = None
    column: int | None = None

    def parse(self, stream: Any) -> None:
        """Read a file; no entity is expanded and nothing outside the file is opened."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text.append
        parser.StartDoctypeDeclHandler = self.refuse_doctype
        try:
            while block := stream.read(_BLOCK):
                parser.Parse(block, False)
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise PolyplinkError(f"{self.name} is not whole XML ({error})", _MEND) from None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.text.clear()
        if not self.path and tag != "annotations":
            raise PolyplinkError(f"{self.name} is not of CVAT: its root is <{tag}>", _MEND)
        self.path.append(tag)
        track = self.track
        if track is not None:
            if tag == "attribute":
                named = attributes.get("name")
                self.column = {SCORE: -1, self.attribute: -2}.get(named or "")
            elif tag in _SHAPES and len(self.path) == 3:
                row = [track.get("task_id"), track.get("id", ""), track.get("label", ""), tag]
                self.shapes.append([*row, *map(attributes.get, _OF_SHAPE), None, None])
        elif tag == "track":
            self.track = attributes
        elif tag == "image":
            raise PolyplinkError(
                f"{self.name} is of CVAT for images", "export the task as CVAT for video 1.1"
            )
        elif tag in {"task", "job"} and "meta" in self.path:
            self.tasks.append({})

    def end(self, tag: str) -> None:
        text = "".join(self.text).strip()
        self.text.clear()
        self.path.pop()
        if tag == "track":
            self.track = None
        elif self.track is not None:
            if tag == "attribute" and self.column is not None and len(self.path) == 3:
                self.shapes[-1][self.column] = text
        elif text and self.tasks and "meta" in self.path:
            in_task = self.path[-1] in {"task", "job", "original_size"}
            if in_task or self.path == ["annotations", "meta"]:
                self.tasks[-1].setdefault(tag, text)

    def refuse_doctype(self, *_: object) -> None:
        raise PolyplinkError(f"{self.name} has a document type, which is not read", _MEND)


def _read(
    source: _Source, root: Path, attribute: str, options: Options
) -> tuple[Faults, pl.DataFrame, pl.DataFrame]:
    """One file: faults, boxes with their label, and rows of procedures."""
    faults = Faults(options.strict)
    path, member = source
    name = path.name if member is None else f"{path.name}!/{member}"
    parser = _Parser(name, attribute)
    with ExitStack() as stack:
        if member is None:
            parser.parse(stack.enter_context(path.open("rb")))
        else:
            parser.parse(stack.enter_context(ZipArchive(path).open(member)))
    if not parser.tasks:
        faults.warn("file without a task, its own name taken", name)
    tasks = parser.tasks or [{}]
    rows = []
    for task in tasks:
        last = _whole(task.get("stop_frame"))
        rows.append(
            {
                "procedure_id": task.get("name") or path.stem,
                # `size` counts the annotated frames, the last one those of the video.
                "n_frames": _whole(task.get("size")) if last is None else last + 1,
                "width": _whole(task.get("width")),
                "height": _whole(task.get("height")),
            }
        )
    procedures = pl.DataFrame(rows, schema={name: PROCEDURES[name].dtype for name in rows[0]})
    names = procedures["procedure_id"].to_list()
    boxes = _boxes(parser.shapes, name, faults)
    procedure = pl.lit(names[0])
    if len(tasks) > 1:
        ids = {task["id"]: name for task, name in zip(tasks, names, strict=True) if "id" in task}
        procedure = pl.col("task").replace_strict(ids, default=None, return_dtype=pl.String)
    videos = {name: _video(task, path, root) for name, task in zip(names, tasks, strict=True)}
    images = _images(source, root, videos, options.first_frame)
    boxes = boxes.with_columns(procedure_id=procedure).with_columns(image=images).drop("task")
    return faults, boxes, procedures


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else None


def _boxes(shapes: list[list[str | None]], name: str, faults: Faults) -> pl.DataFrame:
    table = pl.DataFrame(shapes, schema=dict.fromkeys(_COLUMNS, pl.String), orient="row")
    seen = pl.col("outside").fill_null("0") != "1"
    frame = pl.col("frame").fill_null("?")
    table = table.filter(seen).with_columns(
        at=pl.format("{}, track {}, frame {}", pl.lit(name), "track", frame)
    )
    kind, mend = "shape of a track that is no box", "draw boxes (rectangles)"
    table = leave_out(table, pl.col("tag") != "box", kind, mend, faults)
    kind, mend = "box with a score that is no number", "write a number, or nothing"
    table = leave_out(table, no_number(SCORE), kind, mend, faults)
    rotated = table.filter(number("rotation").fill_null(0) != 0)
    faults.warn_rows("rotated box, read as upright", rotated)
    polyp = pl.col(POLYP)
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
        # An attribute that is there but empty says that the polyp is not known.
        track=pl.when(polyp.is_null()).then("track"),
    )


def _video(task: dict[str, str], path: Path, root: Path) -> str | None:
    """The task's video beside the file, relative to the source's folder."""
    for name in (task.get("source"), task.get("name"), path.stem):
        found = video_beside(path.parent, Path(name).name) if name else None
        if found is not None:
            return (path.parent / found).relative_to(root).as_posix()
    return None


def _images(
    source: _Source, root: Path, videos: dict[str, str | None], first_frame: int
) -> pl.Expr:
    """Images by frame: `images/frame_000012.PNG` of the archive, else frames of the video."""
    frame = pl.col("frame").cast(pl.Int64, strict=False)
    members = {}
    path, member = source
    for name in [] if member is None else ZipArchive(path).names():
        stem = name.rpartition("/")[2].rpartition(".")[0].rpartition("_")[2]
        if name.lower().endswith((".png", ".jpg", ".jpeg")) and stem.isdecimal():
            members[int(stem)] = f"{path.relative_to(root).as_posix()}!/{name}"
    if members:
        return frame.replace_strict(members, default=None, return_dtype=pl.String)
    video = pl.col("procedure_id").replace_strict(videos, default=None, return_dtype=pl.String)
    return pl.format("{}#{}", video, frame - first_frame)


def write_cvat(data: DataSet, root: Path) -> None:
    """Write `<procedure>.xml`; `import_cvat` reads them, and so does CVAT (upload annotations).

    A track holds the boxes of one polyp; a further box of it in a frame is of a further track. It
    is closed by `outside="1"` in every frame after which it is not seen. Polyp and score are
    attributes of a box, empty where unknown. Facts go into `polyps.csv` and `procedures.csv`. Not
    carried: the order of boxes in a frame, images, splits.

    Args:
        data: The data set.
        root: Folder to write into; created if absent.
    """
    nth = pl.int_range(pl.len()).over("procedure_id", "frame", "polyp_id")
    x, y, w, h = (pl.col(side).cast(pl.Float64) for side in "xywh")
    track = pl.struct("polyp_id", "nth").rank("dense").over("procedure_id").cast(pl.Int64) - 1
    boxes = data.detections.with_columns(nth=nth, xbr=x + w, ybr=y + h, xtl=x, ytl=y)
    boxes = boxes.with_columns(track=track).sort(
        "procedure_id", "track", "frame", maintain_order=True
    )
    tables = boxes.partition_by("procedure_id", as_dict=True)
    for task, row in enumerate(data.procedures.iter_rows(named=True)):
        table = tables.get((row["procedure_id"],), boxes.clear())
        # Quoted, because a name may hold a slash; the task's own name is inside.
        path = root / f"{quote(row['procedure_id'], safe=' ')}.xml"
        write_text(path, "".join(_document(task, row, table)))
    write_side_tables(data, root)


def _document(task: int, row: dict[str, Any], boxes: pl.DataFrame) -> Iterator[str]:
    attributes = "".join(
        f"<attribute><name>{name}</name><mutable>True</mutable><input_type>text</input_type>"
        "<default_value/><values/></attribute>"
        for name in (POLYP, SCORE)
    )
    yield (
        '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n<version>1.1</version>\n<meta>'
        f"<task>\n<id>{task}</id>\n<name>{escape(row['procedure_id'])}</name>\n"
        f"<size>{row['n_frames']}</size>\n<mode>interpolation</mode>\n<overlap>0</overlap>\n"
        f"<start_frame>0</start_frame>\n<stop_frame>{row['n_frames'] - 1}</stop_frame>\n"
        f"<frame_filter/>\n<labels><label><name>{LABEL}</name><attributes>{attributes}</attributes>"
        f"</label></labels>\n<original_size><width>{row['width']}</width>"
        f"<height>{row['height']}</height></original_size>\n</task></meta>\n"
    )
    for (track,), rows in boxes.partition_by("track", as_dict=True, maintain_order=True).items():
        yield f'<track id="{track}" label="{LABEL}" source="manual">\n'
        yield from _shapes(rows, row["n_frames"] - 1)
        yield "</track>\n"
    yield "</annotations>\n"


def _shapes(rows: pl.DataFrame, last: int) -> Iterator[str]:
    name = escape(rows["polyp_id"][0] or "")  # one for the whole track
    corners = pl.format(" ".join(f'{edge}="{{}}"' for edge in _EDGES), *_EDGES)
    score = pl.col("score").cast(pl.String).fill_null("")
    told = (
        pl.lit(f'<attribute name="{POLYP}">{name}</attribute><attribute name="{SCORE}">')
        + score
        + "</attribute></box>\n"
    )
    columns = rows.select(
        "frame", pl.col("frame").shift(-1).alias("next"), corners=corners, attributes=told
    )
    box = '<box frame="{}" keyframe="1" outside="{}" occluded="0" {}>{}'
    for frame, following, edges, attributes in columns.iter_rows():
        yield box.format(frame, 0, edges, attributes)
        if following != frame + 1 and frame < last:
            yield box.format(frame + 1, 1, edges, attributes)
