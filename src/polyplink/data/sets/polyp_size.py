"""Read Polyp-Size: 42 short videos of one polyp each, sizes measured against a reference.

Source: Song et al., Scientific Data 2025, 12:918 (figshare 28030115). Frames are read from the
videos themselves, `01.mp4` or `Video01.mp4`; whether boxes come with the set is not confirmed, so
they are read from a side file, or the whole frame is the box.
"""

import re
from collections.abc import Callable
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.archives import INSIDE
from polyplink.data.files.trees import Member, Tree, open_tree
from polyplink.data.files.video import frame_name, is_video, open_video
from polyplink.data.formats.edge_boxes import EdgeBox, PolypRow, ProcedureRow, join_edges
from polyplink.data.sets.origin import Origin, read_origin
from polyplink.data.sets.polyp_size_boxes import SideBox, read_side_boxes
from polyplink.data.sets.polyp_size_labels import (
    VIDEO,
    VideoLabel,
    is_label_table,
    parse_labels,
    read_rows,
)
from polyplink.data.sets.recognise import nothing_found
from polyplink.data.tables import Imported

DATASET = "polyp-size"

_FOLD = re.compile(r"(?:^|/)((?:train|val)_\d+)\.csv$")
_FRAME = re.compile(r"(?:video)?0*(\d+)_", re.I)  # 01_0.27_.png, as the official lists name it


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
    (`split/train_1.csv`, `val_1.csv`, ...) become parts of the same names where they are there.

    Args:
        source: Folder with the videos, at any depth.
        images: Name each box's frame, `01.mp4#17`.
        strict: Raise at the first fault instead of leaving it out and counting it.
        progress: Called after every video with how many are read and how many there are.
        workers: Taken so that all importers are called alike; one process reads this set.
        cases: The label table, .xlsx or .csv; None: the one in the folder.
        boxes: CSV file with procedure_id (or video_id), frame, x, y, w, h in pixels; None: each
            box is the whole frame, which is told.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If there is no video that can be read, or a table cannot be read; if
            strict, at the first fault.
    """
    del workers
    faults = Faults(strict)
    tree = open_tree(source, faults)
    videos = _videos(tree, faults)
    if not videos:
        raise nothing_found(tree, str(source), "video 01.mp4 or Video01.mp4", DATASET)
    labels = _labels(tree, cases, faults)
    given = None if boxes is None else read_side_boxes(boxes, faults)
    origin = read_origin(tree, DATASET)
    procedures: dict[int, ProcedureRow] = {}
    for done, (number, member) in enumerate(videos.items(), 1):
        row = _procedure(origin, number, member, labels.get(number), faults)
        if row is not None:
            procedures[number] = row
        if progress is not None:
            progress(done, len(videos))
    if not procedures:
        raise PolyplinkError(f"{source} has no video that can be read", "download them again")
    rows = []
    for number, row in procedures.items():
        name = videos[number].image if images else None
        rows += _boxes(row, name, None if given is None else given.pop(number, []), faults)
    for number, rest in (given or {}).items():
        kind = "box of a video that is not there"
        faults.fault(kind, f"{rest[0].where} ({number:02d})", "restore the video")
    polyps = [_polyp(row, labels.get(number)) for number, row in procedures.items()]
    splits = _splits(tree, procedures, faults)
    data = join_edges(rows, list(procedures.values()), polyps, splits, faults)
    return Imported(data, faults.lines())


def _videos(tree: Tree, faults: Faults) -> dict[int, Member]:
    videos: dict[int, Member] = {}
    for member in tree.members:
        if not is_video(member.name):
            continue
        match = VIDEO.fullmatch(member.name)
        if match is None:
            faults.warn("video whose name is no number, left out", member.image)
        elif INSIDE in member.image:
            faults.fault("video inside an archive", member.image, "unpack it")
        elif int(match[1]) in videos:
            faults.fault("second video of a number", member.image, "remove one of them")
        else:
            videos[int(match[1])] = member
    return dict(sorted(videos.items()))


def _labels(tree: Tree, path: Path | None, faults: Faults) -> dict[int, VideoLabel]:
    """The label table that was given, or the only one in the folder."""
    if path is not None:
        if not path.is_file():
            raise PolyplinkError(f"{path} is missing", "check the path of the label table")
        return parse_labels(read_rows(path.read_bytes(), str(path)), path.name, faults)
    tables = {}
    for member in tree.members:
        # `~$name.xlsx` is what a spreadsheet program leaves while a file is open in it.
        if member.suffix in (".xlsx", ".csv") and not member.name.startswith("~$"):
            rows = read_rows(tree.read(member), member.image)
            if is_label_table(rows):
                tables[member.image] = rows
    if len(tables) > 1:
        raise PolyplinkError(
            f"{tree.root} has several label tables: {', '.join(tables)}", "say which one it is"
        )
    if not tables:
        faults.warn("no label table: sizes, shapes and histology are null", str(tree.root))
        return {}
    ((name, rows),) = tables.items()
    return parse_labels(rows, name, faults)


def _procedure(
    origin: Origin,
    number: int,
    member: Member,
    label: VideoLabel | None,
    faults: Faults,
) -> ProcedureRow | None:
    try:
        with open_video(Path(origin.source) / member.image) as video:
            n_frames, width, height, fps = video.n_frames, video.width, video.height, video.fps
    except PolyplinkError as error:
        if faults.strict:
            raise
        faults.warn("video that cannot be read, left out", error.what)
        return None
    if label is None:
        faults.warn("video without a row in the label table", f"{number:02d}")
        label = VideoLabel()
    return ProcedureRow(
        procedure_id=f"{number:02d}",
        dataset=origin.dataset,
        patient=f"{number:02d}",
        n_frames=n_frames,
        width=width,
        height=height,
        source=origin.source,
        fps=fps,
        age=label.age,
        sex=label.sex,
        brand=label.model,
    )


def _polyp(row: ProcedureRow, label: VideoLabel | None) -> PolypRow:
    label = label or VideoLabel()
    return PolypRow(
        polyp_id=row.procedure_id,
        procedure_id=row.procedure_id,
        size_mm=label.size_mm,
        histology=label.pathology,
        histology_class=label.histology_class,
        morphology=label.shape,
    )


def _boxes(
    row: ProcedureRow, video: str | None, given: list[SideBox] | None, faults: Faults
) -> list[EdgeBox]:
    """The boxes of one video: those of the side file, or every frame as a whole."""
    name = row.procedure_id
    if given is None:
        faults.warn("whole frame taken as a box, no file of boxes given", name, row.n_frames)
        given = [SideBox(i, 0, 0, row.width, row.height, name) for i in range(row.n_frames)]
    elif not given:
        faults.warn("video without a box in the file of boxes", name)
    found = []
    for box in given:
        if not 0 <= box.frame < row.n_frames:
            mend = "number the frames from 0"
            faults.fault(f"box beyond the video's {row.n_frames} frames", box.where, mend)
            continue
        image = None if video is None else frame_name(video, box.frame)
        edges = (box.x, box.y, box.x + box.w, box.y + box.h)
        found.append(EdgeBox(name, box.frame, name, image, box.where, *edges))
    return found


def _splits(
    tree: Tree, procedures: dict[int, ProcedureRow], faults: Faults
) -> dict[str, list[str]]:
    """The official folds, by the videos of the frames they list."""
    splits: dict[str, list[str]] = {}
    for member in tree.members:
        match = _FOLD.search(member.path)
        if match is None:
            continue
        words = [cell for row in read_rows(tree.read(member), member.image) for cell in row]
        numbers = {int(found[1]) for word in words if (found := _FRAME.match(word))}
        splits[match[1]] = [f"{number:02d}" for number in procedures if number in numbers]
    for name in sorted(splits):
        other = name.replace("train_", "val_")
        both = set(splits[name]) & set(splits.get(other, [])) if other != name else set()
        for shared in sorted(both):
            faults.warn("video in both parts of an official fold", f"{shared}, {name}")
    return splits
