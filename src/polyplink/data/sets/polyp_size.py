"""Polyp-Size: 42 short videos of one polyp each, with sizes measured against a reference.

Source: Song et al., Scientific Data 2025, 12:918 (figshare 28030115). Frames are read from the
videos, `01.mp4` or `Video01.mp4`. It is not confirmed that the release contains boxes, so they are
read from a separate file, or the whole frame is the box. Reader and writer.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.folders import is_video
from polyplink.data.files.image_names import frame_name
from polyplink.data.files.trees import Member, Tree
from polyplink.data.formats.csv import read_box_rows
from polyplink.data.formats.format import ONE_A_VIDEO, Format, ImportOptions
from polyplink.data.sets import facts, layout
from polyplink.data.sets.layout import Frame, Release
from polyplink.data.tables import DataSet, Imported, csv_text
from polyplink.data.vocabulary import ADENOMA

DATASET = "polyp-size"
_WANTED = ("size_mm", "morphology", "age", "sex", "brand", "histology")  # of the label table
_CLASSES = {word.lower(): word for word in ADENOMA["polyp-size"]}
_FOLD = re.compile(r"(?:^|/)((?:train|val)_\d+)\.csv$")
_FRAME = re.compile(r"(?:video)?0*(\d+)_", re.I)  # 01_0.27_.png, as the official lists name it
_SIDES = ("x", "y", "w", "h")


def import_polyp_size(
    source: Path,
    *,
    cases: Path | None = None,
    boxes: Path | None = None,
    **options: Unpack[ImportOptions],
) -> Imported:
    """Read Polyp-Size into the three tables.

    Procedures and polyps are `01` .. `42`, one patient each. The five official lists
    (`split/train_1.csv`, `val_1.csv`, ...), if they exist, become parts of the same names. The
    image of a box is a frame of the video, `01.mp4#17`.

    Args:
        source: Folder with the videos, at any depth.
        cases: The label table, .xlsx or .csv; None for the table in the folder.
        boxes: CSV file with procedure_id (or video_id), frame, x, y, w, h in pixels; None to use
            the whole frame as the box, with a warning.
        options: See `ImportOptions`.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If no video can be read, or a table cannot be read; if strict, at the first
            fault.
    """
    release = Release(DATASET, source, **options)
    faults, tree = release.faults, release.tree

    # The videos by number, and the tables that describe them.
    names = {}
    for member in tree.members:
        match = re.fullmatch(facts.NUMBER, member.name, re.I)
        if is_video(member.name) and match is not None:
            names[member] = f"{int(match[1]):02d}"
        elif is_video(member.name):
            faults.warn(Message("import.unnumbered_video"), member.image)
    if not names:
        raise release.nothing_found("video 01.mp4 or Video01.mp4")
    table, labels = _read_labels(tree, cases, faults)
    side_boxes = None if boxes is None else read_side_boxes(boxes, faults)
    names = dict(sorted(names.items(), key=lambda item: int(item[1])))
    recordings = release.open_videos(names, progress=release.progress)
    if not recordings:
        raise PolyplinkError(f"{source} has no video that can be read", "download them again")

    # A polyp for each video; without a file of boxes, a box for each frame.
    videos: dict[str, str] = {}  # procedure id -> its video
    for recording in recordings:
        name, video = recording.name, recording.video
        assert video is not None
        videos[name] = video.image
        recording.procedure["patient"], recording.polyp = name, {}
        if side_boxes is None:
            kind = Message("import.whole_frame")
            faults.warn(kind, name, recording.n_frames)
            for frame in range(recording.n_frames):
                image = Member(video.path, frame_name(video.image, frame))
                edges: layout.Edges = (0, 0, *recording.size)
                recording.frames[frame] = Frame(image, Member(video.path, name), boxes=[edges])
        elif name not in side_boxes["procedure_id"]:
            faults.warn(Message("import.video_without_box"), name)
    facts.add_facts({int(video.name): video for video in recordings}, labels, table, faults)

    # The boxes of the file, with frames of the videos as images.
    if side_boxes is not None:
        is_missing = ~pl.col("procedure_id").is_in(list(videos))
        kind, hint = Message("import.missing_video"), "restore the video"
        side_boxes = leave_out(side_boxes, is_missing, kind, hint, faults)
        files = videos if release.images else dict.fromkeys(videos)
        video_file = pl.col("procedure_id").replace_strict(files, return_dtype=pl.String)
        number_text = pl.col("frame").cast(pl.Int64, strict=False).cast(pl.String)
        side_boxes = side_boxes.with_columns(
            polyp_id="procedure_id", image=pl.concat_str(video_file, number_text, separator="#")
        )
    return release.join(recordings, splits=_splits(tree, list(videos), faults), boxes=side_boxes)


def read_side_boxes(path: Path, faults: Faults) -> pl.DataFrame:
    """Read a CSV file of boxes.

    Args:
        path: The file; columns procedure_id or video_id (`01`, `Video01`, `01.mp4`), frame (from
            0), x, y, w, h (pixels). Score and polyp_id are ignored: the video is the identity.
        faults: Counts rows without a valid video, and unknown columns.

    Returns:
        Columns of `BOXES`: procedure_id, frame, x, y, w, h, at.

    Raises:
        PolyplinkError: If the file is missing or not a table, or lacks a column; if strict, at the
            first row without a valid video.
    """
    table = read_box_rows(path, faults)
    video = (
        pl.col("procedure_id").str.strip_chars().str.extract(f"(?i)^{facts.NUMBER}$").str.zfill(2)
    )
    table = table.select(video, "frame", *_SIDES, "at")
    no_video = pl.col("procedure_id").is_null()
    return leave_out(
        table, no_video, Message("import.box_without_video"), "write the video's number", faults
    )


def _splits(tree: Tree, names: Sequence[str], faults: Faults) -> dict[str, list[str]]:
    """The official folds, from the videos of the frames that they list."""
    splits: dict[str, list[str]] = {}
    for member in tree.members:
        fold = _FOLD.search(member.path)
        if fold is None:
            continue
        listed = set[int]()
        for row in facts.read_rows(tree.read(member), member.image):
            frames = (_FRAME.match(cell) for cell in row)
            listed |= {int(frame[1]) for frame in frames if frame is not None}
        splits[fold[1]] = [name for name in names if int(name) in listed]
    for part in sorted(splits):
        if part.startswith("train_"):
            validated = splits.get(part.replace("train_", "val_"), [])
            for shared in sorted(set(splits[part]) & set(validated)):
                faults.warn(Message("import.both_parts"), f"{shared}, {part}")
    return splits


def _read_labels(tree: Tree, path: Path | None, faults: Faults) -> tuple[str | None, facts.Facts]:
    """The name and the facts of a label table: of `path`, or the only one in the folder."""
    if path is not None:
        return path.name, facts.read_facts(path, _WANTED, _CLASSES, faults)
    tables = {}
    for member in tree.members:
        # `~$name.xlsx` is a lock file of a spreadsheet program.
        if member.suffix in (".xlsx", ".csv") and not member.name.startswith("~$"):
            rows = facts.read_rows(tree.read(member), member.image)
            if rows and {"number", "size_mm"} <= facts.find_columns(rows[0]).keys():
                tables[member.image] = rows
    if len(tables) > 1:
        raise PolyplinkError(
            f"{tree.root} has several label tables: {', '.join(tables)}",
            "name it with --cases FILE",
        )
    for name, rows in tables.items():
        return name, facts.parse_facts(rows, name, _WANTED, _CLASSES, faults)
    return None, {}


def write_polyp_size(data: DataSet, root: Path) -> None:
    """Write a data set in the layout of Polyp-Size: `labels.csv` and `boxes.csv`.

    The layout has no field for polyp ids (one polyp per video), patients, scores, histology
    classes, locations, and splits. The number and size of frames are those of the videos.

    Args:
        data: Procedures named by two digits (`01`).
        root: Folder to write into; created if absent.

    Raises:
        PolyplinkError: If a procedure has another name.
    """
    names = "[0-9]{2}|[1-9][0-9]{2,}"
    checked = layout.procedures_to_write(data, root, DATASET, names, "by two digits, 01")
    list(checked)  # iteration checks the names; no procedure has a file of its own
    polyps = data.polyps.unique("procedure_id", keep="last")
    rows = data.procedures.join(polyps, "procedure_id", how="left", maintain_order="left")
    labels = rows.select(
        Video_ID="Video" + pl.col("procedure_id"),
        Polyp_Size=layout.MILLIMETRES,
        Paris_Classification="morphology",
        Age="age",
        Gender="sex",
        Endoscope_Model="brand",
        Pathology="histology",
    )
    write_text(root / "labels.csv", csv_text(labels))
    boxes = data.detections.select("procedure_id", "frame", *_SIDES)
    write_text(root / "boxes.csv", csv_text(boxes))


POLYP_SIZE = Format(
    import_polyp_size,
    write_polyp_size,
    (*ONE_A_VIDEO, "patients", "frame sizes", "locations"),
)
