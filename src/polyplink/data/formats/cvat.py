"""Read what CVAT exports as "CVAT for video 1.1"."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import box_table
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.folders import read_each, video_beside
from polyplink.data.formats.assemble import Found, Options, assemble
from polyplink.data.formats.cvat_files import CvatPath, cvat_paths, member_images, open_cvat
from polyplink.data.formats.cvat_xml import Attributes, CvatFile, parse_cvat
from polyplink.data.formats.procedure_rows import Size, source_folder
from polyplink.data.formats.text_table import number, written
from polyplink.data.imported import Imported

POLYP, SCORE = "polyp_id", "score"  # attributes of a box
_EDGES = ("xtl", "ytl", "xbr", "ybr")
_OTHERS = ("outside", "frame", "rotation")


def import_cvat(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    dataset: str | None = None,
    size: Size | None = None,
    identity: str = "track",
    attribute: str = POLYP,
) -> Imported:
    """Read tracks of boxes; every task is a procedure under its name.

    A box with `outside="1"` is not one: its track is not seen there, so that a tracklet ends. Boxes
    between key frames are taken as exported. Frames are those of the video, from 0.

    Args:
        source: An XML file, the archive as exported, or a folder of either.
        images: Name each box's image, or the frame of the task's video, where it is there: in the
            archive, or beside the file.
        strict: Raise at the first shape that cannot be used, instead of leaving it out.
        progress: Called after every file with how many are read and how many there are.
        workers: Processes that read files.
        dataset: Name of the data set; None: the source's name.
        size: Width and height of every frame, where the task has none.
        identity: "track": a track without the attribute is a polyp, `<task>_<track>`; "none".
        attribute: The boxes' attribute that names the polyp; where it is empty, none is known.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a file is broken or of another format, or two tasks have one name; if
            strict, at the first fault.
    """
    options = Options(images, dataset, size, identity)
    paths = cvat_paths(source)
    folder = source_folder(source)
    read = partial(_read, root=folder, attribute=attribute, strict=strict)
    parts = read_each(read, paths, workers=workers, progress=progress)
    faults = Faults(strict)
    for part in parts:
        faults.add(part.faults)
    boxes = pl.concat([part.boxes for part in parts])
    procedures = pl.concat([part.procedures for part in parts])
    _require_own_names(procedures)
    _tell_of_labels(boxes, faults)
    found = Found(box_table(boxes), procedures)
    return assemble(found, folder, source.stem, options, faults)


@dataclass(frozen=True)
class _Read:
    """One file: its boxes with their label, its rows of procedures, and its faults."""

    boxes: pl.DataFrame
    procedures: pl.DataFrame
    faults: Faults


def _read(path: CvatPath, root: Path, attribute: str, strict: bool) -> _Read:
    faults = Faults(strict)
    with open_cvat(path) as stream:
        file = parse_cvat(stream, path.name)
    if file.images:
        raise PolyplinkError(
            f"{path.name} is of CVAT for images", "export the task as CVAT for video 1.1"
        )
    tasks = file.tasks or [{}]
    if not file.tasks:
        faults.warn("file without a task, its own name taken", path.name)
    procedures = pl.concat([_procedure(task, path) for task in tasks])
    boxes = _boxes(file, path, attribute, faults)
    ids = [task.get("id") for task in tasks]
    names = procedures["procedure_id"].to_list()
    if len(tasks) == 1:
        boxes = boxes.with_columns(procedure_id=pl.lit(names[0]))
    else:
        known = {i: name for i, name in zip(ids, names, strict=True) if i is not None}
        boxes = boxes.with_columns(
            procedure_id=pl.col("task").replace_strict(known, default=None, return_dtype=pl.String)
        )
    videos = {name: _video(task, path, root) for name, task in zip(names, tasks, strict=True)}
    return _Read(_with_images(boxes, path, root, videos).drop("task"), procedures, faults)


def _procedure(task: Attributes, path: CvatPath) -> pl.DataFrame:
    name = task.get("name") or path.path.stem
    last = _whole(task.get("stop_frame"))
    return pl.DataFrame(
        {
            "procedure_id": name,
            # The size counts the frames that were annotated, the last one those of the video.
            "n_frames": _whole(task.get("size")) if last is None else last + 1,
            "width": _whole(task.get("width")),
            "height": _whole(task.get("height")),
        },
        schema={
            "procedure_id": pl.String,
            "n_frames": pl.Int32,
            "width": pl.Int32,
            "height": pl.Int32,
        },
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else None


def _boxes(file: CvatFile, path: CvatPath, attribute: str, faults: Faults) -> pl.DataFrame:
    names = (*_EDGES, *_OTHERS)
    columns = {n: [box.get(n) for box in file.boxes] for n in names}
    columns |= {
        "polyp_id": [told.get(attribute) for told in file.told],
        SCORE: [told.get(SCORE) for told in file.told],
    }
    tracks = pl.DataFrame(
        file.tracks, schema=dict.fromkeys(("task", "track", "label", "tag"), pl.String),
        orient="row",
    )  # fmt: skip
    table = tracks.with_columns(
        pl.Series(name, values, dtype=pl.String) for name, values in columns.items()
    )
    table = table.filter(pl.col("outside").fill_null("0") != "1").with_columns(
        at=pl.format(
            "{}, track {}, frame {}", pl.lit(path.name), "track", pl.col("frame").fill_null("?")
        )
    )
    table = leave_out(
        table,
        pl.col("tag") != "box",
        "shape of a track that is no box",
        "draw boxes (rectangles)",
        faults,
    )
    table = leave_out(
        table,
        written(SCORE) & number(SCORE).is_null(),
        "box with a score that is no number",
        "write a number, or nothing",
        faults,
    )
    turned = table.filter(number("rotation").fill_null(0) != 0)
    if turned.height:
        faults.warn("box that is turned, taken upright", turned["at"][0], turned.height)
    left, top, right, bottom = (number(edge) for edge in _EDGES)
    named = pl.col("polyp_id")
    return table.select(
        "at",
        "task",
        "label",
        number("frame"),
        number(SCORE).alias("score"),
        pl.when(named != "").then(named),
        x=left,
        y=top,
        w=right - left,
        h=bottom - top,
        # An attribute that is there but empty says that the polyp is not known.
        track=pl.when(named.is_null()).then("track"),
    )


def _video(task: Attributes, path: CvatPath, root: Path) -> str | None:
    """The task's video beside the file, relative to the source's folder."""
    names = (task.get("source"), task.get("name"), path.path.stem)
    beside = path.path.parent
    for name in names:
        found = video_beside(beside, Path(name).name) if name else None
        if found is not None:
            return (beside / found).relative_to(root).as_posix()
    return None


def _with_images(
    boxes: pl.DataFrame, path: CvatPath, root: Path, videos: dict[str, str | None]
) -> pl.DataFrame:
    members = member_images(path)
    frame = pl.col("frame").cast(pl.Int64, strict=False)
    if members:
        archive = path.path.relative_to(root).as_posix()
        names = {number: f"{archive}!/{name}" for number, name in members.items()}
        return boxes.with_columns(
            image=frame.replace_strict(names, default=None, return_dtype=pl.String)
        )
    video = pl.col("procedure_id").replace_strict(videos, default=None, return_dtype=pl.String)
    return boxes.with_columns(image=pl.format("{}#{}", video, frame))


def _require_own_names(procedures: pl.DataFrame) -> None:
    twice = procedures.filter(pl.col("procedure_id").is_duplicated())["procedure_id"]
    if twice.len():
        raise PolyplinkError(
            f"two tasks are called {twice[0]!r}", "give every task its own name in CVAT"
        )


def _tell_of_labels(boxes: pl.DataFrame, faults: Faults) -> None:
    labels = boxes["label"].unique().sort()
    if labels.len() > 1:
        faults.warn("label of tracks, all taken as polyps", ", ".join(labels), labels.len())
