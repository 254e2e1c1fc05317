"""YOLO text labels, annotated or written by a detector or tracker.

Source: docs.ultralytics.com (detection data sets; `save_txt`, `save_conf` and tracking). A line is
`class cx cy w h [score] [track]`; cx, cy, w, h are fractions of the image's width and height.
"""

import posixpath
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Unpack

import polars as pl

from polyplink.core.artefacts import atomic_folder, write_text
from polyplink.core.errors import ImportOptionError, PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import file_name, relative_path
from polyplink.data.faults import Faults, leave_out, place_of, place_text
from polyplink.data.files.folders import check_is_folder
from polyplink.data.files.images import image_size
from polyplink.data.files.trees import decode_text, image_names, walk_files
from polyplink.data.files.values import track_name, whole_number
from polyplink.data.formats.assemble import (
    BoxImport,
    ReadOptions,
    Size,
    assemble,
    divide_by_size,
    first_of_frame,
    frame_span,
    read_tables,
    sizes_of_procedures,
    splits_of,
)
from polyplink.data.formats.format import SEPARATE, Format, by_item
from polyplink.data.formats.frame_names import (
    PART,
    PARTS,
    name_frames,
    numbers_alone,
    only_frames,
)
from polyplink.data.formats.side_tables import number_polyps, read_side_tables, write_side_tables
from polyplink.data.formats.videos import find_videos
from polyplink.data.tables import DataSet, Imported

SIXTH = ("score", "track")
_BOTH = "score and track"  # after outlines
_CHUNK = 2000  # files that a worker reads at a time
_NOT_LABELS = {"classes.txt", "train.txt", "val.txt", "test.txt", "README.txt"}
_SIDE = re.compile(r"^(width|height)[ \t]*:[ \t]*(.*?)[ \t]*(?:#.*)?$", re.MULTILINE)
_VALUES = ("class", "cx", "cy", "w", "h", "sixth", "seventh")
_LONGEST = len(_VALUES)  # lines of more than one further value are outlines


class _LabelFile(NamedTuple):
    path: str
    name: str  # path below `labels`, with the part first; gives procedure and frame
    image: str | None  # of the frame, relative to the source


def import_yolo(
    source: Path,
    *,
    sixth: str | None = None,
    **options: Unpack[ReadOptions],
) -> Imported:
    """Read YOLO labels, boxes or outlines; procedure and frame come from a file's name.

    Names are `<procedure>_<frame>.txt` or `<procedure>/<frame>.txt`, optionally below a part (see
    `polyplink.data.formats.frame_names.name_frames`). The size of a frame is taken from `size`, or
    else `procedures.csv`, the keys width and height in `data.yaml`, or the frame's image or the
    procedure's video, in this order. Files named only by a number belong to one procedure, named as
    the folder. A file without a number is the only frame of its procedure if it has an image, and
    left out otherwise. A procedure with images of several sizes becomes one procedure for each
    size.

    Args:
        source: A folder with `labels/` and optionally `images/` (or `<part>/labels/`).
        sixth: Meaning of the sixth of six values, or of the value after an outline, "score" or
            "track"; None: a score if some lines have both or it is not always a whole number; a
            track if some are above 1, or after an outline.
        options: See `ReadOptions`; use a first frame of 1 for a tracker that names its files
            `<video>_<frame>`.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If there are no labels, the size of a frame is unknown, or the meaning of
            the sixth value is ambiguous; if strict, at the first fault.
    """
    if sixth is not None and sixth not in SIXTH:
        raise PolyplinkError(f"no sixth {sixth!r}", f"give --sixth {' or '.join(SIXTH)}")
    reading = BoxImport(source, **options)
    faults = reading.faults

    # The lines of all label files; the images are opened only if nothing states their size. That of
    # a procedure in `procedures.csv` comes before that in `data.yaml`.
    files = _label_files(source)
    side, _ = read_side_tables(source, Faults())  # `assemble` reads it again, and reports faults
    size = reading.size or _yaml_size(source)
    with_size = side.drop_nulls(["width", "height"])["procedure_id"].implode()
    ids = name_frames(pl.Series([file.name for file in files], dtype=pl.String))["procedure_id"]
    open_images = size is None and not ids.is_in(with_size).fill_null(False).all()
    read = partial(_read_labels, root=source, open_images=open_images, strict=reading.strict)
    chunks = [(i, files[i : i + _CHUNK]) for i in range(0, len(files), _CHUNK)]
    boxes, sizes, blank = read_tables(read, chunks, reading)
    left_out, hint = faults.first_left_out
    readable = not boxes.is_empty() or blank.height == len(files)
    if not readable:
        raise PolyplinkError(f"no line of {source} is a box: {left_out}", hint)
    frames = _frames(files, source, reading.first, faults)
    frames = frames.join(sizes, on="file", how="left", maintain_order="left")
    is_stated = pl.col("procedure_id").is_in(with_size)
    frames = frames.with_columns(
        pl.when(~is_stated).then(pl.col("width", "height")), patient=pl.lit(None, pl.String)
    )
    if open_images and reading.video is None:
        frames = _with_any_size(frames, is_stated)
    frames = divide_by_size(frames, pl.lit(True), faults)
    of_file = frames.drop("width", "height", "patient")
    boxes = boxes.join(of_file, on="file", how="inner", maintain_order="left")
    faults.warn_values("import.classes", boxes["class"])

    # The procedures, and the videos of those without an image.
    procedures = frames.group_by("procedure_id", maintain_order=True).agg(
        **frame_span(reading.first),
        has_no_image=pl.col("image").is_null().all(),
        patient=pl.col("patient").first(),
    )
    filmed = procedures if reading.video else procedures.filter("has_no_image")
    if size is not None and not reading.images:  # a video would add nothing
        filmed = filmed.clear()
    single = reading.name if procedures.height == 1 else None
    videos = find_videos(filmed, source, reading.video, faults, single=single)

    # The size of frames, by which the fractions are multiplied.
    if size is None:
        of_images = sizes_of_procedures(frames, faults)
        procedures = procedures.join(
            of_images, on="procedure_id", how="left", maintain_order="left"
        )
    else:
        procedures = procedures.with_columns(width=pl.lit(size[0]), height=pl.lit(size[1]))
    procedure_facts = pl.concat([side, procedures, videos], how="diagonal_relaxed")
    sixth = _meaning(boxes, sixth)
    return assemble(
        _score_and_track(_to_pixels(boxes, procedure_facts, reading.size), sixth),
        source,
        reading,
        procedures=procedures,
        splits=splits_of(frames),
        videos=videos,
        empty=frames.join(blank, on="file", how="semi", maintain_order="left"),
        files=[Path(file.path) for file in files],
        format_options={"sixth": sixth, "outlines": _BOTH if boxes["numbered"].any() else sixth},
    )


def _label_files(source: Path) -> list[_LabelFile]:
    """The label files of a source and their images, with one listing for each folder."""
    check_is_folder(source)
    folders = [(source / part / "labels", source / part / "images", part) for part in ("", *PARTS)]
    folders = [folder for folder in folders if folder[0].is_dir()]
    if not folders:  # the source is the folder of labels itself
        images = source.parent / "images" if source.name == "labels" else source
        folders = [(source, images, "")]
    files = []
    for labels, images, part in folders:
        image_files = image_names(images) if images.is_dir() else []
        image_of = {name.rpartition(".")[0]: name for name in image_files}
        image_folder, prefix = relative_path(images, source), f"{part}/" if part else ""
        # The files of a folder before those of its subfolders.
        for name in sorted(walk_files(labels), key=lambda name: (name.split("/")[:-1], name)):
            if name.lower().endswith(".txt") and name.rpartition("/")[2] not in _NOT_LABELS:
                image = image_of.get(name[:-4])
                image = None if image is None else posixpath.normpath(f"{image_folder}/{image}")
                files.append(_LabelFile(f"{labels}/{name}", prefix + name, image))
    if not files:
        raise PolyplinkError(f"{source} has no labels (labels/*.txt)", "check the path")
    return files


def _yaml_size(source: Path) -> Size | None:
    """The keys `width` and `height` at the top level of `data.yaml`; None if one is missing."""
    path = source / "data.yaml"
    if not path.is_file():
        return None
    sides: dict[str, int] = {}
    for side, text in _SIDE.findall(decode_text(path.read_bytes(), str(path))):
        sides[side] = whole_number(text) or 0
        if not sides[side]:
            raise PolyplinkError(
                f"{path}: {side} is {text!r}", "write a whole number of pixels, above 0"
            )
    return (sides["width"], sides["height"]) if len(sides) == 2 else None


def _read_labels(
    chunk: tuple[int, Sequence[_LabelFile]], root: Path, open_images: bool, strict: bool
) -> tuple[Faults, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Read label files.

    Args:
        chunk: Number of the first file, and the files.
        root: Folder that images are relative to.
        open_images: Open each image for its size.
        strict: Raise at the first fault.

    Returns:
        Faults; boxes with at, file (number of the file), item (the line, from 0), class, cx, cy, w,
        h (fractions of the image's size), sixth, seventh, null if a line has fewer values, and
        outlined and numbered (see `_box_outlines`); file, width, height of the opened images; and
        file of the label files without a line.
    """
    first, files = chunk
    faults = Faults(strict)

    # The lines of all files, and the files without one.
    rows: list[tuple[int, int, str]] = []
    blank: list[int] = []
    for i, file in enumerate(files, first):
        try:
            with open(file.path, "rb", buffering=0) as stream:  # noqa: PTH123 - a Path is slow
                text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            faults.fault(Message("import.broken_text"), file.name, "write it again")
            continue
        lines_of_file = [
            (i, number, line)
            for number, line in enumerate(text.splitlines(), 1)
            if line and not line.isspace()
        ]
        rows += lines_of_file
        blank += [] if lines_of_file else [i]

    names = pl.Series([file.name for file in files], dtype=pl.String)
    schema = {"file": pl.Int64, "line": pl.Int64, "text": pl.String}
    lines = pl.DataFrame(rows, schema=schema, orient="row")
    file_name = names.gather(lines["file"] - first)
    at = place_text("place.line", file=pl.lit(file_name), number="line")
    boxes = _boxes(lines.with_columns(at=at), faults)

    # The sizes of images.
    sizes: list[tuple[int, int, int]] = []
    for i, file in enumerate(files if open_images else (), first):
        if file.image is not None:
            size = image_size(root / file.image)
            if isinstance(size, str):
                hint = "replace it, or give the size"
                faults.fault(Message("import.broken_image"), file.image, hint)
            else:
                sizes.append((i, *size))
    opened = dict.fromkeys(("file", "width", "height"), pl.Int64)
    return (
        faults,
        boxes,
        pl.DataFrame(sizes, schema=opened, orient="row"),
        pl.DataFrame({"file": blank}, schema={"file": pl.Int64}),
    )


def _boxes(lines: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """The boxes of lines (at, file, line, text), see `_read_labels`; others are left out."""
    lines = lines.with_columns(values=pl.col("text").str.extract_all(r"\S+"))
    lines = _box_outlines(lines)
    count = pl.col("values").list.len()
    kind = Message("import.no_box_line")
    hint = "write 5 to 7 values, or the class and at least four points"
    lines = leave_out(lines, (count < 5) | (count > _LONGEST), kind, hint, faults)
    values = [
        pl.col("values").list.get(i, null_on_oob=True).cast(pl.Float64, strict=False).alias(name)
        for i, name in enumerate(_VALUES)
    ]
    further = ("outlined", "numbered")
    boxes = lines.select("at", "file", *further, *values, count=count, item=pl.col("line") - 1)
    # A side that is not a number is reported by `check_boxes`.
    number_columns = ((0, "class"), (5, "sixth"), (6, "seventh"))
    has_text = pl.any_horizontal(
        pl.col(name).is_null() & (pl.col("count") > i) for i, name in number_columns
    )
    kind = Message("import.text_in_line")
    return leave_out(boxes, has_text, kind, "write numbers", faults).drop("count")


def _box_outlines(lines: pl.DataFrame) -> pl.DataFrame:
    """Replace outlines (class, x and y of each point, score, track) by class, box, score and track.

    Class and three points are as many values as class, box, score and track. An outline has at
    least four points, therefore; Roboflow and Ultralytics repeat the first one at the end. Both
    score and track follow if the last value of all outlines is a whole number from 1, and one is
    above 1 or there are several outlines, as the last point of one may be at the bottom.

    Returns:
        The lines with `outlined` (whether a line was an outline) and `numbered` (whether both score
        and track followed).
    """
    values, count = pl.col("values"), pl.col("values").list.len()
    if lines.filter(count > _LONGEST).is_empty():
        return lines.with_columns(outlined=pl.lit(False), numbered=pl.lit(False))
    numbers = values.list.eval(pl.element().cast(pl.Float64, strict=False))
    is_outline = (count > _LONGEST + 1) & ~numbers.list.eval(pl.element().is_null()).list.any()
    lines = lines.with_columns(outlined=is_outline)
    odd_numbers = lines.filter(pl.col("outlined") & (count % 2 == 1))  # numbers after the class
    last_values = odd_numbers.select(numbers.list.last()).to_series()
    is_number = (last_values >= 1) & (last_values == last_values.floor())
    numbered = bool(is_number.all()) and (last_values.len() > 1 or bool((last_values > 1).any()))
    n_further = pl.when(count % 2 == 0).then(1).otherwise(2 if numbered else 0)
    n_sides = count - 1 - n_further
    sides = numbers.list.slice(1, n_sides)
    spans = [sides.list.gather_every(2, start) for start in (0, 1)]
    box = [(span.list.max() + span.list.min()) / 2 for span in spans]
    box += [span.list.max() - span.list.min() for span in spans]
    boxed = pl.concat_list(values.list.first(), *(side.cast(pl.String) for side in box))
    boxed = boxed.list.concat(values.list.slice(n_sides + 1))
    return lines.with_columns(
        values=pl.when("outlined").then(boxed).otherwise(values),
        numbered=pl.col("outlined") & (n_further == 2),
    )


def _frames(files: Sequence[_LabelFile], source: Path, first: int, faults: Faults) -> pl.DataFrame:
    """File number, procedure, frame, part and image of every label file."""
    names = pl.Series("at", [file.name for file in files], dtype=pl.String)
    images = pl.Series("image", [file.image for file in files], dtype=pl.String)
    frames = name_frames(names).with_columns(names, images)
    frames = numbers_alone(frames, source, faults)
    name = pl.col("at").str.replace(PART, "").str.strip_suffix(".txt")
    name = pl.when(pl.col("image").is_not_null()).then(name)
    frames = only_frames(frames, name, first, faults)
    frames = frames.with_columns(file=pl.int_range(pl.len(), dtype=pl.Int64))
    frames = leave_out(
        frames,
        pl.col("frame").is_null() | pl.col("procedure_id").is_null(),
        Message("import.unnamed_file"),
        "name it <procedure>_<frame>.txt or <procedure>/<frame>.txt",
        faults,
    )
    kind = Message("import.further_file")
    return first_of_frame(frames, kind, "remove one of them", faults).drop("at")


def _with_any_size(frames: pl.DataFrame, is_stated: pl.Expr) -> pl.DataFrame:
    """Leave out the procedures of which no image could be opened for the size of its frames.

    Args:
        frames: procedure_id, image (null if missing) and width (null if not known) of each frame;
            returned as they are if no image could be opened.
        is_stated: Whether the size of the procedure is stated elsewhere.
    """
    broken = pl.col("image").is_not_null() & pl.col("width").is_null()
    kept = frames.filter(is_stated | ~broken.all().over("procedure_id"))
    return kept if kept.height else frames


def _to_pixels(boxes: pl.DataFrame, procedures: pl.DataFrame, size: Size | None) -> pl.DataFrame:
    """Convert fractions to pixels, by a size or the first size of their procedure in the table."""
    if size is None:
        sized = procedures.drop_nulls(["width", "height"]).unique("procedure_id", keep="first")
        sized = sized.select("procedure_id", "width", "height")
        boxes = boxes.join(sized, on="procedure_id", how="left", maintain_order="left")
    else:
        boxes = boxes.with_columns(width=pl.lit(size[0]), height=pl.lit(size[1]))
    unknown = boxes.filter(pl.col("width").is_null())
    if unknown.height:
        raise ImportOptionError(
            f"{place_of(unknown['at'][0])}: the size of its frame is unknown",
            "give the size of the frames with --size WxH, or put the images next to the labels",
        )
    return boxes.with_columns(
        x=(pl.col("cx") - pl.col("w") / 2) * pl.col("width"),
        y=(pl.col("cy") - pl.col("h") / 2) * pl.col("height"),
        w=pl.col("w") * pl.col("width"),
        h=pl.col("h") * pl.col("height"),
    )


def _meaning(boxes: pl.DataFrame, sixth: str | None) -> str:
    """The meaning of the sixth of six values; see `import_yolo`."""
    value = boxes["sixth"].drop_nulls()
    if sixth == "track" and (value != value.floor()).any():
        first = boxes.filter(pl.col("sixth") != pl.col("sixth").floor()).row(0, named=True)
        raise PolyplinkError(
            f"{place_of(first['at'])}: the sixth value, {first['sixth']:g}, is not the number of a "
            "track",
            "give --sixth score",
        )
    if sixth is None and value.len() and boxes["seventh"].null_count() == boxes.height:
        integral = value == value.floor()
        if not integral.all():
            sixth = "score"
        elif (value > 1).any() or boxes["outlined"].any():
            sixth = "track"
        else:
            raise ImportOptionError(
                f"{place_of(boxes['at'][0])}: the sixth value may be a score or a track, all are 0 "
                "or 1",
                "choose with --sixth score or --sixth track",
            )
    return sixth or "score"


def _score_and_track(boxes: pl.DataFrame, sixth: str) -> pl.DataFrame:
    """Add score and track; -1 means none."""
    alone = pl.col("seventh").is_null() & pl.lit(sixth == "track")
    track = pl.when(alone).then("sixth").otherwise("seventh")
    score = pl.when(~alone & (pl.col("sixth") != -1)).then("sixth")
    boxes = boxes.with_columns(score=score, track=track)
    return boxes.with_columns(track=track_name("track"))


def mark_yolo(
    path: Path, marks: pl.DataFrame, *, sixth: str, outlines: str = "track"
) -> dict[str, bytes]:
    """The lines of a file with the track at the end, as Ultralytics' trackers write them.

    A line of a box without a track ends with its score, or with its sides. An earlier track is
    dropped. A second file has the polyp in place of the track.

    Args:
        path: A file that `import_yolo` reads; one that is not UTF-8 text is returned unchanged.
        marks: See `Format`.
        sixth: Meaning of the sixth of six values.
        outlines: Meaning of the values after an outline: "score", "track" or both.
    """
    data = path.read_bytes()
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        return dict.fromkeys(SEPARATE, data)
    numbers = by_item(marks, len(lines))
    trackless = []
    for line in lines:
        values = line.split()
        is_outline = len(values) > _LONGEST + 1
        has_one_more = len(values) % 2 == 0  # value than the class and the points
        has_track = outlines == ("track" if has_one_more else _BOTH)
        if len(values) == _LONGEST or (is_outline and has_track):
            trackless.append(" ".join(values[:-1]))
        elif len(values) in (5, 6):
            trackless.append(" ".join(values[:5] if sixth == "track" else values))
        else:  # not a box
            trackless.append(line)
    contents = {}
    for folder, column in SEPARATE.items():
        marked = [
            line if number is None else f"{line} {number}"
            for line, number in zip(trackless, numbers[column], strict=True)
        ]
        contents[folder] = "".join(f"{line}\n" for line in marked).encode()
    return contents


def write_yolo(data: DataSet, root: Path) -> None:
    """Write `labels/<procedure>/<frame>.txt` and `data.yaml`; `import_yolo` reads them.

    A line is `0 cx cy w h`, with score and track if any box has one (-1: none). Procedures of the
    parts train, val and test are in a folder of that name. Names and facts of polyps and procedures
    are written into `polyps.csv` and `procedures.csv`; `data.yaml` has width and height if they are
    the same for all procedures. Boxes are read back to a thousandth of a pixel. Lost: images,
    other splits, and the parts of procedures without a box.

    Args:
        data: The data set.
        root: Folder to write into; created if absent.

    Raises:
        PolyplinkError: If `labels` exists already, or a procedure has the name of a part.
    """
    tracks = number_polyps(data)
    have = [part for part in PARTS if data.splits.get(part)]
    part_of = {i: part for part in have for i in data.splits[part]}
    with atomic_folder(root / "labels") as labels:
        folder_of: dict[str, str] = {}
        for procedure_id, frame, text in _lines(data, tracks).iter_rows():
            if procedure_id not in folder_of:
                if procedure_id.split("/", maxsplit=1)[0] in PARTS:
                    raise PolyplinkError(
                        f"procedure {procedure_id!r} has the name of a part", "give it another name"
                    )
                folders = (file_name(name, exact=True) for name in procedure_id.split("/"))
                folder = labels.joinpath(part_of.get(procedure_id, ""), *folders)
                folder.mkdir(parents=True)
                folder_of[procedure_id] = str(folder)
            with open(f"{folder_of[procedure_id]}/{frame:06d}.txt", "w", encoding="utf-8") as file:  # noqa: PTH123 - no path object for each frame
                file.write(text)
    sizes = data.procedures.select("width", "height").unique().rows()
    size = "width: {}\nheight: {}\n".format(*sizes[0]) if len(sizes) == 1 else ""
    parts = "".join(f"{part}: images/{part}\n" for part in have) or "train: images\nval: images\n"
    write_text(root / "data.yaml", f"path: .\n{parts}nc: 1\nnames: [polyp]\n{size}")
    write_side_tables(data, root, tracks)


def _lines(data: DataSet, tracks: pl.DataFrame) -> pl.DataFrame:
    """procedure_id, frame, and the text of the frame's label file."""
    size = data.procedures.select("procedure_id", "width", "height")
    boxes = data.detections.join(size, on="procedure_id", how="left", maintain_order="left").join(
        tracks, on=["procedure_id", "polyp_id"], how="left", maintain_order="left"
    )
    x, y, w, h = (pl.col(side).cast(pl.Float64) for side in "xywh")
    width, height = pl.col("width"), pl.col("height")
    values = [(x + w / 2) / width, (y + h / 2) / height, w / width, h / height]
    if boxes["score"].null_count() + boxes["track"].null_count() < 2 * boxes.height:
        values += [pl.col("score").fill_null(-1), pl.col("track").fill_null(-1)]
    line = pl.concat_str(pl.lit("0"), *(v.cast(pl.String) for v in values), separator=" ")
    return (
        boxes.select("procedure_id", "frame", line=line + "\n")
        .group_by("procedure_id", "frame", maintain_order=True)
        .agg(pl.col("line").str.join(""))
    )


LOSSES = ("images", "other splits", "parts of empty procedures")
YOLO = Format(import_yolo, write_yolo, LOSSES, mark_yolo, archives=False)
