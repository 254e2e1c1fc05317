"""Read MOTChallenge text: ground truth, detections and trackers' results.

Source: motchallenge.net. A line is `frame, id, left, top, width, height, confidence, class,
visibility` (ground truth) or ends in three coordinates that are not used; frames count from 1.
Left and top are taken as they are.
"""

from collections.abc import Callable
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.boxes import box_table
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.folders import IMAGE_ENDINGS, numbered, read_each, video_beside
from polyplink.data.formats.assemble import Found, Options, assemble
from polyplink.data.formats.mot_files import Sequence, mot_sequences
from polyplink.data.formats.procedure_rows import Size, source_folder
from polyplink.data.formats.text_table import number
from polyplink.data.imported import Imported

_COLUMNS = ("frame", "id", "x", "y", "w", "h", "confidence", "class", "visibility", "more")
_NEEDED = 6
FIRST = 1  # frames count from 1


def import_mot(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    kind: str | None = None,
    dataset: str | None = None,
    size: Size | None = None,
    identity: str = "track",
) -> Imported:
    """Read MOTChallenge sequences; each is a procedure under its folder's (or file's) name.

    Args:
        source: A folder of `<sequence>/gt/gt.txt`, `<sequence>/det/det.txt` or `<sequence>.txt`
            (below `train` or `test`, which become splits, or not), one sequence, or one file.
        images: Name each box's image (`<sequence>/<imDir>/<number>.jpg`, or the frame of a video
            `<sequence>.mp4` beside it), where it is there.
        strict: Raise at the first line that cannot be used, instead of leaving it out.
        progress: Called after every sequence with how many are read and how many there are.
        workers: Processes that read sequences.
        kind: "gt", "det", or None: ground truth where it is there. Of ground truth, lines of
            confidence 0 are marked as ignored and left out, and there are no scores; of
            detections the confidence is the score (-1: none).
        dataset: Name of the data set; None: the source's name.
        size: Width and height of every frame, where there is no seqinfo.ini.
        identity: "track": an id is a polyp, `<sequence>_<id>` (-1: unknown); "none": a tracker's
            ids that are no identities.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If there is no sequence, or no size of its frames; if strict, at the first
            fault.
    """
    options = Options(images, dataset, size, identity, FIRST)
    faults = Faults(strict)
    sequences = mot_sequences(source, kind, faults)
    read = partial(_read, root=source_folder(source), strict=strict)
    parts = read_each(read, sequences, workers=workers, progress=progress)
    for part in parts:
        faults.add(part.faults)
    boxes = pl.concat([part.boxes for part in parts])
    _tell_of_classes(boxes, faults)
    splits: dict[str, list[str]] = {}
    for sequence in sequences:
        if sequence.part is not None:
            splits.setdefault(sequence.part, []).append(sequence.name)
    found = Found(box_table(boxes), pl.concat([p.procedure for p in parts]), splits=splits)
    return assemble(found, source_folder(source), source.stem, options, faults)


@dataclass(frozen=True)
class _Read:
    """One sequence: boxes with their class, its row of procedures, and its faults."""

    boxes: pl.DataFrame
    procedure: pl.DataFrame
    faults: Faults


def _read(sequence: Sequence, root: Path, strict: bool) -> _Read:
    faults = Faults(strict)
    info = _seqinfo(sequence.folder / "seqinfo.ini")
    boxes = _boxes(sequence, faults)
    boxes = boxes.with_columns(
        procedure_id=pl.lit(sequence.name), image=_images(boxes["frame"], sequence, info, root)
    )
    procedure = pl.DataFrame(
        {
            "procedure_id": sequence.name,
            "n_frames": _whole(info, "seqlength"),
            "fps": _real(info, "framerate"),
            "width": _whole(info, "imwidth"),
            "height": _whole(info, "imheight"),
        },
        schema={
            "procedure_id": pl.String,
            "n_frames": pl.Int32,
            "fps": pl.Float32,
            "width": pl.Int32,
            "height": pl.Int32,
        },
    )
    return _Read(boxes, procedure, faults)


def _boxes(sequence: Sequence, faults: Faults) -> pl.DataFrame:
    table = _lines(sequence.path)
    at = pl.format("{}, line {}", pl.lit(f"{sequence.name}/{sequence.path.name}"), "line")
    table = table.with_columns(at=at)
    for column in ("id", "confidence"):
        table = leave_out(
            table,
            pl.col(column).str.strip_chars().str.len_bytes().gt(0) & number(column).is_null(),
            f"line with text instead of a number ({column})",
            "write a number (-1: not known)",
            faults,
        )
    table = table.with_columns(number(column) for column in _COLUMNS)
    if sequence.truth:
        marked = pl.col("confidence") == 0
        ignored = table.filter(marked)
        if ignored.height:
            faults.warn("line marked as ignored (confidence 0)", ignored["at"][0], ignored.height)
        table = table.filter(~marked.fill_null(False))
    confidence = None if sequence.truth else pl.when(pl.col("confidence") != -1).then("confidence")
    return table.select(
        "at",
        *_COLUMNS[:1],
        *_COLUMNS[2:6],
        "class",
        score=pl.lit(None, dtype=pl.Float64) if confidence is None else confidence,
        track=pl.when(pl.col("id") >= 0).then(pl.col("id").cast(pl.Int64).cast(pl.String)),
    )


def _lines(path: Path) -> pl.DataFrame:
    """The lines of a file as ten columns of text; what a line lacks is null."""
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        return pl.DataFrame(schema={"line": pl.UInt32, **dict.fromkeys(_COLUMNS, pl.String)})
    try:
        table = pl.read_csv(
            data,
            has_header=False,
            schema=dict.fromkeys(_COLUMNS, pl.String),
            missing_columns="insert",
            truncate_ragged_lines=True,
        )
    except pl.exceptions.PolarsError as error:
        raise PolyplinkError(
            f"{path} is no table of numbers ({first_line(error)})", "write it as MOTChallenge does"
        ) from None
    if table["x"].is_null().all():
        raise PolyplinkError(
            f"{path} has no lines of {_NEEDED} values with commas", "write it as MOTChallenge does"
        )
    # Counted after blank lines are gone: near enough to find the line.
    return table.with_row_index("line", 1)


def _seqinfo(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8-sig"))
    except (IniError, UnicodeDecodeError) as error:
        raise PolyplinkError(
            f"{path} cannot be read ({first_line(error)})", "write it as MOTChallenge does"
        ) from None
    return dict(parser["Sequence"]) if parser.has_section("Sequence") else {}


def _real(info: dict[str, str], key: str) -> float | None:
    if key not in info:
        return None
    try:
        value = float(info[key])
    except ValueError:
        value = 0.0
    PolyplinkError.unless(
        value > 0, f"seqinfo.ini: {key} is {info[key]!r}", "write a number above 0"
    )
    return value


def _whole(info: dict[str, str], key: str) -> int | None:
    value = _real(info, key)
    return None if value is None else round(value)


def _images(frames: pl.Series, sequence: Sequence, info: dict[str, str], root: Path) -> pl.Series:
    """The image of every box by its frame's number; null where there are no images."""
    nothing = pl.repeat(None, frames.len(), dtype=pl.String, eager=True)
    folder = sequence.folder / info.get("imdir", "img1")
    files = numbered(folder, IMAGE_ENDINGS)
    if files:
        prefix = f"{folder.relative_to(root)}/"
        have = pl.DataFrame({"frame": list(files), "name": list(files.values())})
        wanted = frames.to_frame("frame").with_columns(pl.col("frame").cast(pl.Int64, strict=False))
        names = wanted.join(have, on="frame", how="left", maintain_order="left")["name"]
        lacking = f"{prefix}(frame without an image)"
        return (prefix + names).fill_null(lacking)
    for place in (sequence.folder, sequence.folder.parent):
        video = video_beside(place, sequence.name)
        if video is not None:
            path = (place / video).relative_to(root)
            return pl.select(
                pl.format("{}#{}", pl.lit(str(path)), frames.cast(pl.Int64, strict=False) - FIRST)
            ).to_series()
    return nothing


def _tell_of_classes(boxes: pl.DataFrame, faults: Faults) -> None:
    classes = boxes["class"].drop_nulls().filter(boxes["class"].drop_nulls() >= 0).unique().sort()
    if classes.len() > 1:
        names = ", ".join(f"{value:g}" for value in classes)
        faults.warn("class of boxes, all taken as polyps", names, classes.len())
