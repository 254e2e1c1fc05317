"""MOTChallenge text: ground truth, detections and trackers' results.

Source: motchallenge.net. A line is `frame, id, left, top, width, height, confidence, class,
visibility` (ground truth) or ends in three coordinates that are not used; frames count from 1.
Left and top are used unchanged.
"""

import re
from collections.abc import Sequence
from configparser import ConfigParser, Error as IniError
from functools import partial
from pathlib import Path
from typing import NamedTuple, Unpack

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.messages import Message
from polyplink.core.text import OUTSIDE, file_name, relative_path
from polyplink.data.faults import Faults, leave_out, place_text
from polyplink.data.files.folders import IMAGE_ENDINGS, check_is_there, files_by_number, files_in
from polyplink.data.files.values import LARGEST, track_name
from polyplink.data.formats.assemble import (
    BoxImport,
    ReadOptions,
    assemble,
    no_number,
    number,
    read_tables,
    source_folder,
    splits_of,
)
from polyplink.data.formats.format import SEPARATE, Format, by_item
from polyplink.data.formats.frame_names import PARTS
from polyplink.data.formats.side_tables import number_polyps, write_side_tables
from polyplink.data.tables import PROCEDURES, DataSet, Imported

FIRST = 1  # frames count from 1
KINDS = ("gt", "det")
_COLUMNS = ("frame", "id", "x", "y", "w", "h", "confidence", "class", "visibility", "more")
_NEEDED = 6
_MEND = "write it as MOTChallenge does"


class MotSequence(NamedTuple):
    """A sequence: the file of its boxes and what its place says.

    Attributes:
        name: Name of its folder or file; becomes the procedure id.
        path: The file of boxes.
        folder: For a file of results, the folder of the same name, which may not exist.
        truth: Whether the boxes are ground truth.
        part: `train` or `test`, from the parent folder; None for none.
    """

    name: str
    path: Path
    folder: Path
    truth: bool
    part: str | None


def import_mot(
    source: Path,
    *,
    kind: str | None = None,
    **options: Unpack[ReadOptions],
) -> Imported:
    """Read MOTChallenge sequences; each is a procedure named as its folder (or file).

    Args:
        source: A folder of `<sequence>/gt/gt.txt`, `<sequence>/det/det.txt` or `<sequence>.txt`
            (optionally below `train` or `test`, which become splits), one sequence, or one file.
        kind: "gt", "det", or None for ground truth if there is any. In ground truth, lines with
            confidence 0 are marked as ignored and left out, and there are no scores; in
            detections the confidence is the score (-1: none).
        options: See `ReadOptions`; the default first frame is 1, and an id of -1 is unknown. Images
            are `<sequence>/<imDir>/<number>.jpg`, or frames of a video.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If there is no sequence, or the size of its frames is unknown; if strict, at
            the first fault.
    """
    if kind is not None and kind not in KINDS:
        raise PolyplinkError(f"no kind {kind!r}", f"give --kind {' or '.join(KINDS)}")
    options.setdefault("first_frame", FIRST)
    reading = BoxImport(source, **options)
    sequences = find_sequences(source, kind, reading.faults)
    folder = source_folder(source)
    read = partial(_read_sequence, root=folder, strict=reading.strict)
    boxes, procedures = read_tables(read, sequences, reading)
    reading.faults.check_some_usable(boxes, boxes.height + reading.faults.n_left_out)
    file_numbers = {sequence.name: number for number, sequence in enumerate(sequences)}
    boxes = boxes.with_columns(file=pl.col("procedure_id").replace_strict(file_numbers))
    classes = boxes["class"].filter(boxes["class"] >= 0)
    reading.faults.warn_values("import.classes", classes)
    return assemble(
        boxes,
        folder,
        reading,
        procedures=procedures,
        splits=splits_of(procedures),
        files=[sequence.path for sequence in sequences],
    )


def find_sequences(source: Path, kind: str | None, faults: Faults) -> list[MotSequence]:
    """The sequences of a source, each name once; see `import_mot`."""

    def sequence(path: Path) -> MotSequence:
        """The sequence of a file: `<sequence>/gt/gt.txt`, `<sequence>/det/det.txt` or any other."""
        if path.stem in KINDS and path.parent.name == path.stem:
            folder = path.parent.parent
            part = folder.parent.name if folder.parent.name in PARTS else None
            return MotSequence(folder.resolve().name, path, folder, path.stem == "gt", part)
        return MotSequence(path.stem, path, path.parent / path.stem, kind == "gt", None)

    check_is_there(source)
    if source.is_file():
        return [sequence(source)]

    # Folders that may be a sequence: the source, its subfolders, and those of train and test.
    folders = [source]
    for folder in (p for p in files_in(source) if p.is_dir()):
        if folder.name in PARTS:
            folders += (p for p in files_in(folder) if p.is_dir())
        folders.append(folder)

    # One file for each of them; without any, all text files of the source.
    paths = []
    for folder in folders:
        files = [folder / label_kind / f"{label_kind}.txt" for label_kind in KINDS]
        existing = [path for path in files if path.is_file()]
        if kind is None and len(existing) > 1:
            faults.warn(Message("import.unread_detections"), folder.name)
        paths += [path for path in existing if kind is None or path.stem == kind][:1]
    sequences = [sequence(path) for path in paths or files_in(source, ".txt")]
    if not sequences:
        raise PolyplinkError(
            f"{source} has no <sequence>/gt/gt.txt, <sequence>/det/det.txt or <sequence>.txt",
            "check the path",
        )
    path_of: dict[str, Path] = {}
    for candidate in sequences:
        if path_of.setdefault(candidate.name, candidate.path) != candidate.path:
            raise PolyplinkError(
                f"{candidate.path} and {path_of[candidate.name]} have the same sequence name",
                "give every sequence its own name",
            )
    return sequences


def _read_sequence(
    sequence: MotSequence, root: Path, strict: bool
) -> tuple[Faults, pl.DataFrame, pl.DataFrame]:
    """Read one sequence: faults, boxes with their class, and a row of procedures with its part."""
    faults = Faults(strict)
    boxes = read_boxes(sequence, faults)

    # The facts of seqinfo.ini, in a row of procedures.
    parser = ConfigParser(interpolation=None)
    path = sequence.folder / "seqinfo.ini"
    try:
        parser.read_string(path.read_text(encoding="utf-8-sig") if path.is_file() else "")
    except (IniError, UnicodeDecodeError) as error:
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", _MEND) from None
    info = dict(parser["Sequence"]) if parser.has_section("Sequence") else {}

    def above_0(key: str) -> float | None:
        """The number of a key; None without the key."""
        try:
            value = float(info[key]) if key in info else None
        except ValueError:
            value = 0.0
        if value is not None and not 0 < value <= LARGEST:
            raise PolyplinkError(
                f"{path}: {key} is {info[key]!r}", f"write a number above 0 and up to {LARGEST}"
            )
        return value

    row: dict[str, object] = {"procedure_id": sequence.name, "fps": above_0("framerate")}
    for column, key in (("n_frames", "seqlength"), ("width", "imwidth"), ("height", "imheight")):
        value = above_0(key)
        row[column] = None if value is None else round(value)
    procedure = pl.DataFrame([row], schema={name: PROCEDURES[name].dtype for name in row})
    part = pl.lit(sequence.part, dtype=pl.String)
    procedure = procedure.with_columns(part=part, video_folder=pl.lit(str(sequence.folder)))

    # The image of each box. In a sequence with images, a box of a frame without one gets a name
    # that does not exist, so that it is reported as missing.
    frame = pl.col("frame").cast(pl.Int64, strict=False)
    images = info.get("imdir", "img1")
    if re.search(OUTSIDE, images) is not None:
        raise PolyplinkError(f"{path}: imDir is {images!r}", "name a folder next to seqinfo.ini")
    folder = sequence.folder / images
    files = files_by_number(folder, IMAGE_ENDINGS)
    image = pl.lit(None, dtype=pl.String)
    if files:
        prefix = f"{relative_path(folder, root)}/"
        names = frame.replace_strict(files, default=None, return_dtype=pl.String)
        image = (prefix + names).fill_null(pl.format("{}{}.*", pl.lit(prefix), frame))
    return faults, boxes.with_columns(procedure_id=pl.lit(sequence.name), image=image), procedure


def read_boxes(sequence: MotSequence, faults: Faults) -> pl.DataFrame:
    """The lines of a sequence's file as boxes; missing values are null."""
    path = sequence.path
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    table = pl.DataFrame(schema=dict.fromkeys(_COLUMNS, pl.String))
    if data.strip():
        try:
            table = pl.read_csv(
                data,
                has_header=False,
                schema=dict.fromkeys(_COLUMNS, pl.String),
                missing_columns="insert",
                truncate_ragged_lines=True,
                quote_char=None,  # a line is a box
            ).select(pl.all().str.strip_chars('" '))
        except pl.exceptions.PolarsError as error:
            problem = f"{path} is not a table of numbers ({first_line(error)})"
            raise PolyplinkError(problem, _MEND) from None
        if table["x"].is_null().all():
            raise PolyplinkError(f"{path} has no lines of {_NEEDED} values and commas", _MEND)
    file = pl.lit(f"{sequence.name}/{path.name}")
    at = place_text("place.line", file=file, number="line")
    table = table.with_row_index("line", 1).with_columns(at=at)
    table = table.filter(pl.any_horizontal(pl.col(_COLUMNS).str.len_bytes() > 0))  # not blank
    for column in ("id", "confidence"):
        kind = Message("import.text_in_column", {"column": column})
        hint = "write a number (-1: unknown)"
        table = leave_out(table, no_number(column), kind, hint, faults)
    table = table.with_columns(number(column) for column in _COLUMNS)
    score: pl.Expr = pl.when(pl.col("confidence") != -1).then("confidence")
    if sequence.truth:
        ignored = (pl.col("confidence") == 0).fill_null(False)
        faults.warn_rows(Message("import.ignored_line"), table.filter(ignored))
        table = table.filter(~ignored)
        score = pl.lit(None, dtype=pl.Float64)
    return table.select(
        *("at", "frame", "x", "y", "w", "h", "class"),
        score=score,
        track=track_name("id"),
        item=pl.col("line").cast(pl.Int64) - 1,
    )


def mark_mot(path: Path, marks: pl.DataFrame) -> dict[str, bytes]:
    """The lines of a file with the track as their id, and again with the polyp; -1 for none.

    Args:
        path: A file that `import_mot` reads.
        marks: See `Format`.
    """
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
    lines = text.removesuffix("\n").split("\n")
    numbers = by_item(marks, len(lines)).fill_null(-1)
    contents = {}
    for folder, column in SEPARATE.items():
        marked_lines = []
        for line, track_number in zip(lines, numbers[column], strict=True):
            fields = line.split(",", 2)  # frame, id, all others
            if len(fields) > 1:
                fields[1] = str(track_number)
            marked_lines.append(",".join(fields) + "\n")
        contents[folder] = "".join(marked_lines).encode()
    return contents


def mot_lines(boxes: pl.DataFrame, confidence: pl.Expr, others: Sequence[int]) -> str:
    """The lines of boxes in a MOTChallenge file: frame from 1, track, box, confidence, others.

    Args:
        boxes: With the columns frame (from 0), track, x, y, w and h.
        confidence: The confidence of each box.
        others: The values of all further fields, the same in each line.
    """
    lines = boxes.select(
        pl.col("frame") + FIRST,
        "track",
        *("x", "y", "w", "h"),
        confidence.alias("confidence"),
        *(pl.lit(value).alias(f"other_{k}") for k, value in enumerate(others)),
    )
    return lines.write_csv(include_header=False)


def write_mot(data: DataSet, root: Path, *, kind: str | None = None) -> None:
    """Write `<procedure>/gt/gt.txt` or `det/det.txt` and `seqinfo.ini`; `import_mot` reads them.

    A polyp is written as its number in the procedure (see `number_polyps`), -1 if unknown; names
    and facts of polyps and procedures are written into `polyps.csv` and `procedures.csv` next to
    the sequences. Lost: images and splits; with "gt", scores.

    Args:
        data: The data set.
        root: Folder to write into; created if absent.
        kind: "det": with scores (-1: none), "gt": as ground truth (confidence 1); None for ground
            truth if every box has a polyp and none has a score.

    Raises:
        PolyplinkError: If a procedure's name cannot be the name of a folder.
    """
    if kind is None:
        annotated = data.detections.select(
            pl.col("polyp_id").is_not_null().all() & pl.col("score").is_null().all()
        )
        kind = "gt" if annotated.item() else "det"
    tracks = number_polyps(data)
    boxes = data.detections.join(
        tracks, on=["procedure_id", "polyp_id"], how="left", maintain_order="left"
    )
    boxes = boxes.with_columns(pl.col("track").fill_null(-1))
    of_procedure = boxes.partition_by("procedure_id", as_dict=True)
    confidence = pl.lit(1) if kind == "gt" else pl.col("score").fill_null(-1)
    others = (1, 1) if kind == "gt" else (-1, -1)  # class and visibility
    for row in data.procedures.iter_rows(named=True):
        name = file_name(row["procedure_id"], exact=True)
        rows = of_procedure.get((name,), boxes.clear())
        write_text(root / name / kind / f"{kind}.txt", mot_lines(rows, confidence, others))
        rate = "" if row["fps"] is None else f"frameRate={row['fps']}\n"
        info = (
            f"[Sequence]\nname={name}\nimDir=img1\n{rate}seqLength={row['n_frames']}\n"
            f"imWidth={row['width']}\nimHeight={row['height']}\nimExt=.jpg\n"
        )
        write_text(root / name / "seqinfo.ini", info)
    write_side_tables(data, root, tracks)


MOT = Format(import_mot, write_mot, ("images", "splits"), mark_mot, archives=False)
