"""Polyp-Size: 42 short videos of one polyp each, sizes measured against a reference.

Source: Song et al., Scientific Data 2025, 12:918 (figshare 28030115). Frames are read from the
videos themselves, `01.mp4` or `Video01.mp4`; whether boxes come with the set is not confirmed, so
they are read from a side file, or the whole frame is the box. Reader and writer.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults, apply_rules
from polyplink.data.files.trees import Member, Tree, open_tree
from polyplink.data.files.video import frame_name, is_video
from polyplink.data.formats.csv import read_box_rows
from polyplink.data.sets.facts import (
    NUMBER,
    Facts,
    add_facts,
    find_columns,
    parse_facts,
    read_facts,
    read_rows,
)
from polyplink.data.sets.layout import (
    MILLIMETRES,
    FrameSource,
    join_recordings,
    nothing_found,
    procedures_to_write,
    video_recordings,
)
from polyplink.data.tables import DataSet, Imported
from polyplink.data.vocabulary import ADENOMA

DATASET = "polyp-size"
FPS = 30  # of a video that is written, where the data set names no frame rate
_WANTED = ("size_mm", "morphology", "age", "sex", "brand", "histology")  # of the label table
_CLASSES = {word.lower(): word for word in ADENOMA["polyp-size"]}
_FOLD = re.compile(r"(?:^|/)((?:train|val)_\d+)\.csv$")
_FRAME = re.compile(r"(?:video)?0*(\d+)_", re.I)  # 01_0.27_.png, as the official lists name it
_SIDES = ("x", "y", "w", "h")


def import_polyp_size(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    cases: Path | None = None,
    boxes: Path | None = None,
) -> Imported:
    """Read Polyp-Size into the three tables.

    Procedures and polyps are `01` .. `42`, one patient each. The five official lists
    (`split/train_1.csv`, `val_1.csv`, ...) become parts of the same names if they are there.

    Args:
        source: Folder with the videos, at any depth.
        images: Name each box's frame, `01.mp4#17`.
        strict: Raise at the first fault instead of leaving it out and counting it.
        progress: Called after every video with how many are read and how many there are.
        workers: Ignored; every importer has it, and this set is read by one process.
        cases: The label table, .xlsx or .csv; None: the one in the folder.
        boxes: CSV file with procedure_id (or video_id), frame, x, y, w, h in pixels; None: each
            box is the whole frame, with a warning.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If there is no video that can be read, or a table cannot be read; if
            strict, at the first fault.
    """
    del workers
    faults = Faults(strict)
    tree = open_tree(source, faults)
    names = {}
    for member in (member for member in tree.members if is_video(member.name)):
        if match := re.fullmatch(NUMBER, member.name, re.I):
            names[member] = f"{int(match[1]):02d}"
        else:
            faults.warn("video whose name is no number, left out", member.image)
    if not names:
        raise nothing_found(tree, source, "video 01.mp4 or Video01.mp4", DATASET)
    table, facts = _read_labels(tree, cases, faults)
    given = None if boxes is None else read_side_boxes(boxes, faults)
    names = dict(sorted(names.items(), key=lambda item: int(item[1])))
    videos = video_recordings(tree, names, faults, progress=progress)
    if not videos:
        raise PolyplinkError(f"{source} has no video that can be read", "download them again")
    for name, (recording, member) in videos.items():
        recording.procedure["patient"], recording.polyp = name, {}
        if given is None:
            kind = "whole frame taken as a box, no file of boxes given"
            faults.warn(kind, name, recording.n_frames)
            for frame in range(recording.n_frames):
                recording.boxes[frame] = [(0, 0, *recording.size)]
                recording.annotations[frame] = Member(member.path, name)
                image = frame_name(member.image, frame)
                recording.images[frame] = Member(member.path, image)
        elif name not in given["procedure_id"]:
            faults.warn("video without a box in the file of boxes", name)
    recordings = {int(name): recording for name, (recording, _) in videos.items()}
    add_facts(recordings, facts, table, faults)
    if given is not None:
        there = pl.col("procedure_id").is_in(list(videos))
        rules = [("box of a video that is not there", "restore the video", ~there)]
        files = {name: member.image if images else None for name, (_, member) in videos.items()}
        video = pl.col("procedure_id").replace_strict(files, return_dtype=pl.String)
        number_text = pl.col("frame").cast(pl.Int64, strict=False).cast(pl.String)
        given = apply_rules(given, rules, faults).with_columns(
            polyp_id="procedure_id", image=pl.concat_str(video, number_text, separator="#")
        )
    splits = _splits(tree, list(videos), faults)
    return join_recordings(
        list(recordings.values()),
        tree,
        DATASET,
        faults,
        images=images,
        splits=splits,
        boxes=given,
    )


def read_side_boxes(path: Path, faults: Faults) -> pl.DataFrame:
    """Read a CSV file of boxes.

    Args:
        path: The file; columns procedure_id or video_id (`01`, `Video01`, `01.mp4`), frame (from
            0), x, y, w, h (pixels). Others are ignored: identity is the video.
        faults: Counts rows whose video cannot be read.

    Returns:
        Columns of `BOXES`: procedure_id, frame, x, y, w, h, at.

    Raises:
        PolyplinkError: If the file is missing or no table, or lacks a column; if strict, at the
            first row of no video.
    """
    table = read_box_rows(path)
    video = pl.col("procedure_id").str.strip_chars().str.extract(f"(?i)^{NUMBER}$").str.zfill(2)
    table = table.select(video, "frame", *_SIDES, "at")
    rules = [("box of no video", "write the video's number", pl.col("procedure_id").is_null())]
    return apply_rules(table, rules, faults)


def _splits(tree: Tree, names: Sequence[str], faults: Faults) -> dict[str, list[str]]:
    """The official folds, by the videos of the frames they list."""
    splits: dict[str, list[str]] = {}
    for member in tree.members:
        if match := _FOLD.search(member.path):
            words = [cell for row in read_rows(tree.read(member), member.image) for cell in row]
            listed = {int(found[1]) for word in words if (found := _FRAME.match(word))}
            splits[match[1]] = [name for name in names if int(name) in listed]
    for part in sorted(splits):
        other = part.replace("train_", "val_")
        both = set(splits[part]) & set(splits.get(other, [])) if other != part else set()
        for shared in sorted(both):
            faults.warn("video in both parts of an official fold", f"{shared}, {part}")
    return splits


def _read_labels(tree: Tree, path: Path | None, faults: Faults) -> tuple[str | None, Facts]:
    """The label table that was given, or the only one in the folder, and its name."""
    if path is not None:
        return path.name, read_facts(path, _WANTED, _CLASSES, faults)
    tables = {}
    for member in tree.members:
        # `~$name.xlsx` is what a spreadsheet program leaves while a file is open in it.
        if member.suffix in (".xlsx", ".csv") and not member.name.startswith("~$"):
            rows = read_rows(tree.read(member), member.image)
            if rows and {"number", "size_mm"} <= find_columns(rows[0]).keys():
                tables[member.image] = rows
    if len(tables) > 1:
        raise PolyplinkError(
            f"{tree.root} has several label tables: {', '.join(tables)}", "say which one it is"
        )
    for name, rows in tables.items():
        return name, parse_facts(rows, name, _WANTED, _CLASSES, faults)
    return None, {}


def write_polyp_size(data: DataSet, root: Path, *, frames: FrameSource | None = None) -> None:
    """Write a data set as Polyp-Size is released: `labels.csv`, `boxes.csv`, and the videos.

    The layout has no place for polyp ids (one polyp a video), patients, scores, histology classes,
    locations, and splits. Without the videos nothing gives frames and their size.

    Args:
        data: Procedures named by two digits (`01`).
        root: Folder to write into; made if absent.
        frames: Gives every image of a procedure that is written as a video; sides must be even.

    Raises:
        PolyplinkError: If a procedure is named otherwise, or an image is missing or odd-sided.
    """
    names = "[0-9]{2}|[1-9][0-9]{2,}"
    for procedure, match in procedures_to_write(data, root, DATASET, names, "by two digits, 01"):
        if frames is not None:
            _write_video(root / f"Video{match[0]}.mp4", procedure, frames)
    polyps = data.polyps.unique("procedure_id", keep="last")
    rows = data.procedures.join(polyps, "procedure_id", how="left", maintain_order="left")
    labels = rows.select(
        Video_ID="Video" + pl.col("procedure_id"),
        Polyp_Size=MILLIMETRES,
        Paris_Classification="morphology",
        Age="age",
        Gender="sex",
        Endoscope_Model="brand",
        Pathology="histology",
    )
    write_text(root / "labels.csv", labels.write_csv())
    boxes = data.detections.select("procedure_id", "frame", *_SIDES)
    write_text(root / "boxes.csv", boxes.write_csv())


def _write_video(path: Path, procedure: dict[str, Any], frames: FrameSource) -> None:
    import av  # noqa: PLC0415 - heavy, and only videos need it

    name, width, height = procedure["procedure_id"], procedure["width"], procedure["height"]
    if width % 2 or height % 2:
        raise PolyplinkError(
            f"procedure {name}: {width} x {height} cannot be a video", "give it even sides"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    rate = Fraction(procedure["fps"] or FPS).limit_denominator(1001)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuv420p"
        for frame in range(procedure["n_frames"]):
            pixels = frames(name, frame)
            if pixels is None:
                what = f"procedure {name}, frame {frame}: no image"
                raise PolyplinkError(what, "give every frame of a video")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
