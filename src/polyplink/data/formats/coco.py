"""COCO annotations of instances, with videos and the extra keys of the papers.

Sources: cocodataset.org (format), its extensions for videos (`videos`, `video_id`, `frame_index`
or `frame_id`), and the extra keys of NTSSL (arXiv 2605.12320; github lparolari/ntssl, README):
`sequence_id` (the video), `frame_id` (index in the video) and `dataset_id` of images,
`identity_id`, `histology`, `size` (mm), `morphology`, `location` of annotations.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl

from polyplink.core.artefacts import parse_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import OUTSIDE, file_name
from polyplink.data.faults import LEFT_OUT, Faults, Rule, apply_rules, leave_out, place_text
from polyplink.data.files.folders import (
    VIDEO_ENDINGS,
    check_is_there,
    files_in,
    without_garbage_collection,
)
from polyplink.data.formats.assemble import (
    BoxImport,
    ReadOptions,
    assemble,
    divide_by_size,
    first_of_frame,
    frame_span,
    no_polyp,
    read_tables,
    sizes_of_procedures,
    splits_of,
)
from polyplink.data.formats.format import Format, by_item
from polyplink.data.formats.frame_names import PARTS, name_frames, numbers_alone, only_frames
from polyplink.data.tables import PROCEDURES, DataSet, Imported

_File = tuple[Path, str | None]  # an annotation file, and the part in its name ("train")

_PREFIX = "instances"
_CATEGORY = 1  # the category id that is written
# Columns that are read from records, and the keys of columns with other names.
_VIDEO = (*(name for name in PROCEDURES if name != "source"), "id", "name", "file_name")
_IMAGE = ("id", "file_name", "width", "height", "video_id", "sequence_id", "frame", "dataset_id")
_BOX = (
    *("id", "image_id", "category_id", "bbox", "iscrowd", "score", "identity_id"),
    *("polyp_id", "track", "size_mm", "histology", "histology_class", "morphology", "location"),
)
# What CVAT and Datumaro write into the `attributes` of an annotation, also read from there.
_ATTRIBUTES = {"identity_id", "polyp_id", "track_id", "instance_id", "size", "size_mm"}
_ATTRIBUTES |= {"histology", "histology_class", "morphology", "location"}
_KEYS = {
    "n_frames": ("n_frames", "length"),
    "frame": ("frame_index", "frame_id", "frame_number", "frame"),
    "polyp_id": ("identity_id", "polyp_id"),  # unique in the data set
    "track": ("track_id", "instance_id"),  # a number may only be unique in its video
    "size_mm": ("size", "size_mm"),
}
_NUMBERS = {name for name, column in PROCEDURES.items() if column.dtype.is_numeric()}
_NUMBERS |= {"frame", "iscrowd", "score", "size_mm"}
# `dataset3_004-005_1` is of the video `dataset3_004-005`; other identities name a video.
_IDENTITY = r"^(.*\d+-\d+)_\d+$"
_VIDEO_FILE = rf"(?i)^(.+)\.({'|'.join(s[1:] for s in VIDEO_ENDINGS)})(?:#([0-9]{{1,10}}))?$"
_NOT_OF_ONE_TYPE = (TypeError, OverflowError, pl.exceptions.PolarsError)  # values of a series
RESULTS = "polyplink import coco ANNOTATIONS DATA --boxes RESULTS"
NO_COCO = Message("import.no_coco", {"command": RESULTS})
# Faults of annotations that are left out.
_UNLISTED_CATEGORY = Message("import.unlisted_category")
_CROWD = Message("import.crowd")
_UNLISTED_IMAGE = Message("import.unlisted_image")
# Column -> key of the papers.
_FACTS = {
    "histology": "histology",
    "size_mm": "size",
    "morphology": "morphology",
    "location": "location",
}


def load_json(path: Path) -> Any:
    """Read a large JSON file.

    Args:
        path: The file; a byte order mark is skipped.

    Raises:
        PolyplinkError: If the file is missing, unreadable, truncated, not UTF-8 or not JSON.
    """
    try:
        with without_garbage_collection():
            return parse_json(path.read_bytes(), str(path), "export or download it again")
    except FileNotFoundError:
        raise PolyplinkError(f"{path} is missing", "check the path") from None
    except OSError as error:
        raise PolyplinkError(f"{path}: {error.strerror or error}", "check the file") from None


def read_records(value: Any, source: str, names: Sequence[str]) -> pl.DataFrame:
    """Convert a list of JSON records to a table, a column at a time.

    Values keep their type until their column is created, so that a malformed value is null in its
    row instead of an error for the file (a typed decoder such as msgspec's would refuse the file).

    Args:
        value: The parsed list; None means no records.
        source: Its name, for the message.
        names: Columns; if a column has several keys, the first in a record counts. Numbers, also
            as text, are Float64, and anything else is null; names and ids are text, with 7, 7.0
            and "7" equal. The column "bbox" becomes x, y, w, h (Float64), null if the value is not
            a list of four numbers.

    Raises:
        PolyplinkError: If `value` is not a list of records.
    """
    rows = [] if value is None else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise PolyplinkError(f"{source} is not a list of records", "export it as COCO again")
    present = frozenset[str]().union(*set(map(tuple, rows)))
    columns: dict[str, pl.Series] = {}
    for name in names:
        keys = [key for key in _KEYS.get(name, (name,)) if key in present]
        values: list[Any] = [None] * len(rows)
        if len(keys) == 1:
            values = [row.get(keys[0]) for row in rows]
        elif keys:
            for i, row in enumerate(rows):
                present_values = [row[key] for key in keys if row.get(key) is not None]
                values[i] = present_values[0] if present_values else None
        if name == "bbox":
            columns |= _sides(values)
        elif name in _NUMBERS:
            try:
                columns[name] = pl.Series(values, dtype=pl.Float64, strict=True)
            except _NOT_OF_ONE_TYPE:
                columns[name] = pl.Series(_as_text(values), dtype=pl.Float64, strict=False)
        else:
            first = next((value for value in values if value is not None), "")
            try:  # twice as fast for values of one type, as in most columns
                dtype = pl.Int64 if type(first) is int else pl.String
                column = pl.Series(values, dtype=dtype, strict=True).cast(pl.String)
            except _NOT_OF_ONE_TYPE:
                column = pl.Series(_as_text(values), dtype=pl.String, strict=False)
            columns[name] = column.str.replace(r"^(-?\d+)\.0$", "${1}")
    return pl.DataFrame(columns)


def _as_text(values: list[Any]) -> list[Any]:
    """Values with integers as text, since polars makes nulls of those beyond 128 bits."""
    return [str(value) if type(value) is int else value for value in values]


def _sides(values: list[Any]) -> dict[str, pl.Series]:
    """The columns x, y, w, h of `bbox` values; null for one that is not a list of four numbers."""
    try:
        table = np.array(values, dtype=np.float64).reshape(len(values), 4)  # n x 4
        return {side: pl.Series(table[:, i]) for i, side in enumerate("xywh")}
    except (TypeError, ValueError, OverflowError):  # a value is malformed
        rows = [v if isinstance(v, list) and len(v) == 4 else [None] * 4 for v in values]
        sides = zip("xywh", zip(*rows, strict=True), strict=True)
        return {side: pl.Series(column, dtype=pl.Float64, strict=False) for side, column in sides}


def import_coco(
    source: Path,
    *,
    datasets: Mapping[str, str] | None = None,
    boxes: Path | None = None,
    **options: Unpack[ReadOptions],
) -> Imported:
    """Read COCO annotations of instances.

    The procedure of an image is the first of these that exists: the name of its video, its
    `sequence_id`, the `identity_id` of its boxes (without the last `_k` if `<digits>-<digits>`
    precedes it), the procedure of other images with the same name pattern if they have only one,
    or the procedure in its file name (see `name_frames`; a video's name is its procedure). The
    frame is `frame_index`, `frame_id`, `frame_number` or `frame`, or else the number in the file
    name. An image with neither a procedure nor a frame is the only frame of a procedure of its
    name. If no box names its polyp, a procedure of file names with images of several sizes becomes
    one procedure for each size. The polyp is `identity_id` or `polyp_id`, or else `track_id` or
    `instance_id`; a number becomes `<procedure>_<number>`. Keys of polyps may also be in the
    `attributes` of an annotation. The parts of splits are those of `instances_<part>.json`.

    Args:
        source: A file, or a folder with `annotations/instances_<part>.json` and `images`.
        datasets: `dataset_id` of images -> name of the data set.
        boxes: A detector's results (a list of image_id, category_id, bbox, score) for the images
            of one file, used instead of the boxes of the file.
        options: See `ReadOptions`.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a file is missing, truncated or not COCO; if strict, at the first fault.
    """
    reading = BoxImport(source, **options)
    faults = reading.faults

    # The images, boxes and videos of all files.
    root, files = _find_files(source)
    if boxes is not None and len(files) > 1:  # the results may lie beside the annotations
        files = [(path, part) for path, part in files if path.resolve() != boxes.resolve()]
    if boxes is not None and len(files) != 1:
        raise PolyplinkError(
            f"{source} has {len(files)} annotation files, but results refer to the images of one",
            "give the file",
        )
    certain = source.is_file() or len(files) == 1
    read = partial(
        _read_annotations, root=root, strict=reading.strict, results=boxes, certain=certain
    )
    frames, annotated, videos = read_tables(read, list(enumerate(files)), reading)
    n_others = faults.number_of(NO_COCO)
    if n_others >= len(files) and not certain:
        raise PolyplinkError(
            f"none of the {len(files)} JSON files in {source} has the lists `images` and "
            "`annotations`",
            "give the file with the boxes",
        )
    kinds = (_UNLISTED_CATEGORY, _CROWD, _UNLISTED_IMAGE)
    n_left_out = sum(faults.number_of(kind, LEFT_OUT) for kind in kinds)
    faults.check_some_usable(annotated, annotated.height + n_left_out)
    categories = annotated["category"].drop_nulls()
    faults.warn_values("import.categories", categories)

    # Procedure and frame of each box, which are those of its image.
    frames = numbers_alone(frames, root, faults)
    frames = only_frames(frames, pl.col("stem"), reading.first, faults)
    hint = "keep one image (and one file) for each frame"
    frames = first_of_frame(frames, Message("import.further_image"), hint, faults)
    if annotated["polyp_id"].null_count() == annotated.height:  # a polyp is in one procedure
        frames = divide_by_size(frames, pl.col("by_name"), faults)
    places = frames.select("file", "procedure_id", "frame", "image", image_id="id")
    placed = annotated.join(places, on=["file", "image_id"], how="inner", maintain_order="left")
    facts = ["procedure_id", "polyp_id", "track", "histology_class", *_FACTS]
    polyps = placed.select(facts).drop_nulls("procedure_id")
    procedures = _procedures(videos, frames, datasets or {}, reading.first, faults)
    procedures = procedures.with_columns(video_folder=pl.lit(str(root / "images")))
    # A file may list videos of another part: only one without images is in the part of its file.
    unseen = procedures.join(frames, on="procedure_id", how="anti", maintain_order="left")
    unseen = unseen.filter(pl.col("part").n_unique().over("procedure_id") == 1)
    parts = pl.concat(table.select("part", "procedure_id") for table in (frames, unseen))
    return assemble(
        placed,
        root,
        reading,
        procedures=procedures,
        polyps=polyps.unique(maintain_order=True),
        splits=splits_of(parts),
        empty=frames.filter("empty"),
        files=[path for path, _ in files] if boxes is None else [boxes],
    )


def _find_files(source: Path) -> tuple[Path, list[_File]]:
    """The folder of a data set, which contains `images`, and its annotation files.

    The files of a folder are those called `instances_<part>.json` or `instances.json`, or all JSON
    files if there are none.
    """

    def part(path: Path) -> str | None:
        name = path.stem.removeprefix(f"{_PREFIX}_")
        return name if name != path.stem or name in PARTS else None

    check_is_there(source)
    if source.is_file():
        parent = source.parent
        root = parent.parent if parent.name == "annotations" else parent
        return root, [(source, part(source))]
    folder = source / "annotations" if (source / "annotations").is_dir() else source
    paths = [path for path in files_in(folder, ".json") if path.name != "run.json"]
    paths = [p for p in paths if re.match(rf"{_PREFIX}(_|$)", p.stem)] or paths
    if not paths:
        raise PolyplinkError(f"{folder} has no annotation file (*.json)", "check the path")
    return source, [(path, part(path)) for path in paths]


def _read_annotations(
    numbered: tuple[int, _File], root: Path, strict: bool, results: Path | None, certain: bool
) -> tuple[Faults, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Read one annotation file, or its images and the boxes of a detector's results.

    Args:
        numbered: Number of the file, and the file.
        root: Folder of the data set.
        strict: Raise at the first fault.
        results: A detector's results.
        certain: Whether the file must be of this format; otherwise a file of another format is left
            out.

    Returns:
        Faults; images with file, at, id, stem, procedure_id, frame, image, width, height, dataset,
        part, by_name (whether the procedure is that in the file name), patient (null), and empty
        (whether the image has no annotation); boxes with file, item, at, image_id,
        category, x, y, w, h, score, polyp_id, track, and facts of the polyp; videos with part and
        columns of `PROCEDURES`.
    """
    file_number, (path, part) = numbered
    content = load_json(path)
    name, faults = path.name, Faults(strict)
    if not isinstance(content, dict) or not {"images", "annotations"} <= set(content):
        if certain or path.stem.startswith(_PREFIX):
            raise PolyplinkError(
                f"{path} has no lists `images` and `annotations`",
                f"give COCO annotations of instances; results alone have no images: `{RESULTS}`",
            )
        faults.warn(NO_COCO, name)
        content = {"images": [], "annotations": []}

    # The records as tables.
    videos = _videos(content.get("videos"), name)
    # Records are deleted once they are tables: millions take gigabytes.
    annotations = content.pop("annotations")
    if results is not None:
        annotations = load_json(results)
    boxes = _boxes(annotations, name if results is None else results.name)
    del annotations
    images = _images(content.pop("images"), videos, name, faults)
    boxed = pl.col("id").is_in(boxes["image_id"].implode())
    images = images.with_columns(empty=~boxed if results is None else pl.lit(False))
    categories = read_records(content.get("categories"), f"{name}: categories", ("id", "name"))
    names = dict(categories.drop_nulls("id").rows())

    # Boxes that cannot be used are left out; the others may name the procedures of images.
    boxes = apply_rules(
        boxes,
        [
            Rule(
                _UNLISTED_CATEGORY,
                "add the category to `categories`",
                ~pl.col("category_id").is_in(list(names)).fill_null(False) & pl.lit(bool(names)),
            ),
            Rule(
                _CROWD,
                "write a box for each polyp",
                pl.col("iscrowd") == 1,
            ),
            Rule(
                _UNLISTED_IMAGE,
                "add the image to `images`",
                ~pl.col("image_id").is_in(images["id"].implode()).fill_null(False),
            ),
        ],
        faults,
    )
    images = _procedures_from_identities(images, boxes, faults)

    # Columns for all files: the file, its part, paths of images, and names of categories.
    file = pl.lit(file_number, dtype=pl.Int32)
    images = images.with_columns(
        procedure_id=pl.coalesce("procedure_id", "by_name"),
        by_name=pl.col("procedure_id").is_null(),
        patient=pl.lit(None, pl.String),
        image=pl.lit(_image_folder(images["image"], root, part)) + pl.col("image"),
        part=pl.lit(part, dtype=pl.String),
        file=file,
    )
    category_names = {number: name for number, name in names.items() if name is not None}
    category = pl.col("category_id")
    if category_names:
        category = category.replace(category_names)
    boxes = boxes.with_columns(category=category, file=file)
    return faults, images, boxes, videos.drop("id").with_columns(part=pl.lit(part, pl.String))


def _videos(records: Any, name: str) -> pl.DataFrame:
    """The videos of a file, named by `name` or file, or by id if they have neither."""
    videos = read_records(records, f"{name}: videos", _VIDEO)
    name_of_video = pl.when(pl.col("name") != "").then("name")
    procedure_name = pl.coalesce(name_of_video, pl.col("file_name").str.extract(_VIDEO_FILE), "id")
    videos = videos.with_columns(procedure_id=procedure_name).drop("name")
    videos = videos.rename({"file_name": "video_name"})
    videos = videos.unique("id", keep="first", maintain_order=True)
    repeated = videos.filter(pl.col("procedure_id").is_duplicated())["procedure_id"]
    if repeated.len():
        raise PolyplinkError(
            f"{name}: two videos are called {repeated[0]!r}", "give every video its own name"
        )
    return videos


def _image_folder(images: pl.Series, root: Path, part: str | None) -> str:
    """The folder of the images, relative to the data set's: where the first image is."""
    first = next(iter(images.drop_nulls().head(1)), None)
    if first is None:
        return ""
    folders = ["images/", ""]
    if part:
        folders += [f"images/{part}/", f"{part}/"]
    for folder in folders:
        if (root / folder / first).is_file():
            return folder
    return "images/" if (root / "images").is_dir() else ""


def _procedures_from_identities(
    images: pl.DataFrame, boxes: pl.DataFrame, faults: Faults
) -> pl.DataFrame:
    """Set the procedure of images without a video from identities, or from similar image names."""
    identities = boxes.filter(~no_polyp("identity_id"))  # null is no identity either
    if not (images["procedure_id"].null_count() and identities.height):
        return images

    # From the identity of one of its boxes.
    of_identity = pl.coalesce(pl.col("identity_id").str.extract(_IDENTITY), "identity_id")
    of_image = identities.unique("image_id", keep="first", maintain_order=True)
    of_image = of_image.select(id="image_id", of_identity=of_identity)
    images = images.join(of_image, on="id", how="left", maintain_order="left").with_columns(
        procedure_id=pl.coalesce("procedure_id", "of_identity")
    )

    # Or else from images with the same name pattern, if these are all of one procedure.
    alike = images.drop_nulls(["procedure_id", "by_name"]).group_by("by_name")
    of_name = alike.agg(of_name=pl.col("procedure_id").unique()).filter(
        pl.col("of_name").list.len() == 1
    )
    of_name = of_name.with_columns(pl.col("of_name").list.first())
    images = images.join(of_name, on="by_name", how="left", maintain_order="left").with_columns(
        procedure_id=pl.coalesce("procedure_id", "of_name")
    )

    # The others are named by their file names, unless they have no box either.
    no_procedure = pl.col("procedure_id").is_null()
    without_box = no_procedure & ~pl.col("id").is_in(boxes["image_id"].implode())
    kind = Message("import.placed_by_name")
    faults.warn_rows(kind, images.filter(no_procedure & ~without_box))
    faults.warn_rows(Message("import.uncounted_image"), images.filter(without_box))
    return images.filter(~without_box).drop("of_identity", "of_name")


def _images(rows: Any, videos: pl.DataFrame, name: str, faults: Faults) -> pl.DataFrame:
    """The images of a file.

    Returns:
        at, id, by_name (the procedure in the file name), stem (the file name without ending),
        width, height, dataset, procedure_id (of its video or sequence), frame, video_name, image.
    """
    table = read_records(rows, f"{name}: images", _IMAGE)
    table = table.with_columns(
        at=_place("place.image", name),
        file_name=pl.col("file_name").str.replace_all("\\", "/", literal=True),  # of Windows
    )
    kind, hint = Message("import.image_without_id"), "give every image an id"
    table = leave_out(table, pl.col("id").is_null(), kind, hint, faults)
    kind, hint = Message("import.repeated_image_id"), "give every image its own id"
    table = leave_out(table, ~pl.col("id").is_first_distinct(), kind, hint, faults)
    outside = pl.col("file_name").str.contains(OUTSIDE).fill_null(False)
    faults.warn_rows(Message("import.image_elsewhere"), table.filter(outside), "file_name")
    by_name = name_frames(table["file_name"]).select(by_name="procedure_id", number_by_name="frame")
    # A frame of a video: `case7.mp4#12`, or `case7.mp4` with the frame number in another key.
    video, number = (pl.col("file_name").str.extract(_VIDEO_FILE, i) for i in (1, 3))
    of_video = videos.select(video_id="id", by_video="procedure_id")
    base = pl.col("file_name").str.extract(r"([^/]+)$")
    table = table.hstack(by_name).join(of_video, on="video_id", how="left", maintain_order="left")
    return table.select(
        *("at", "id", "by_name", "width", "height"),
        stem=pl.when(outside).then(base).otherwise("file_name").str.replace(r"\.[^./]*$", ""),
        dataset="dataset_id",
        procedure_id=pl.coalesce("by_video", "sequence_id", video.str.extract(r"([^/]+)$")),
        frame=pl.coalesce(pl.col("frame"), pl.coalesce(number, "number_by_name").cast(pl.Float64)),
        video_name=pl.when(video.is_not_null() & ~outside).then(
            pl.col("file_name").str.replace(r"#\d+$", "")
        ),
        image=pl.when((video.is_null() | number.is_not_null()) & ~outside).then("file_name"),
    )


def _boxes(rows: Any, name: str) -> pl.DataFrame:
    """The annotations of a file as boxes, see `_read_annotations`."""
    if isinstance(rows, list):
        rows = [_flatten_attributes(row) for row in rows]
    table = read_records(rows, f"{name}: annotations", _BOX)
    # If a file has only one term for histology, it is the data set's class.
    two_words = any("histology_class" in row for row in rows or ())
    track = pl.col("track")
    is_number = track.str.contains(r"^-?\d+$")
    return table.with_columns(
        item=pl.int_range(pl.len(), dtype=pl.Int64),
        at=_place("place.annotation", name),
        polyp_id=pl.coalesce("polyp_id", pl.when(~is_number).then(track)),
        track=pl.when(is_number).then(track),
        histology_class="histology_class" if two_words else "histology",
    ).drop("id")


def _place(kind: str, name: str) -> pl.Expr:
    """The place of a record in a file: its id, or its number from 1 if it has none."""
    entry = pl.int_range(1, pl.len() + 1)
    return pl.coalesce(
        place_text(kind, file=pl.lit(name), number="id"),
        place_text("place.entry", file=pl.lit(name), number=entry),
    )


def _flatten_attributes(row: Any) -> Any:
    """An annotation with the keys of its polyp from its `attributes`; its own have priority."""
    attributes = row.get("attributes") if isinstance(row, dict) else None
    if not isinstance(attributes, dict):
        return row
    return {key: attributes[key] for key in _ATTRIBUTES & set(attributes)} | row


def _procedures(
    videos: pl.DataFrame,
    frames: pl.DataFrame,
    datasets: Mapping[str, str],
    first: int,
    faults: Faults,
) -> pl.DataFrame:
    """Rows of procedures from videos, followed by rows from images; frames count from `first`."""
    placed = frames.drop_nulls(["procedure_id", "frame"])
    by_images = placed.group_by("procedure_id", maintain_order=True).agg(
        pl.col("dataset", "video_name", "patient").drop_nulls().first(),
        datasets=pl.col("dataset").n_unique(),
        **frame_span(first),
    )
    mixed = by_images.filter(pl.col("datasets") > 1)
    if mixed.height:
        raise PolyplinkError(
            f"procedure {mixed['procedure_id'][0]} is in two data sets (dataset_id)",
            "give procedures of different data sets different names",
        )
    by_images = by_images.drop("datasets").join(
        sizes_of_procedures(placed, faults), on="procedure_id", how="left", maintain_order="left"
    )
    counted = videos.drop_nulls("n_frames")
    described = pl.concat([counted, by_images], how="diagonal")
    empty = videos.join(described, on="procedure_id", how="anti", maintain_order="left")
    faults.warn_rows(Message("import.empty_video"), empty, "procedure_id")
    videos = videos.join(described, on="procedure_id", how="semi", maintain_order="left")
    procedures = pl.concat([videos, by_images], how="diagonal")
    ids = procedures["dataset"].drop_nulls().unique().sort().to_list()
    absent = next((name for name in datasets if name not in ids), None)
    if absent is not None:
        raise PolyplinkError(
            f"no image has the dataset_id {absent!r} of --datasets",
            f"those in the file: {', '.join(ids) or 'none'}",
        )
    return procedures.with_columns(pl.col("dataset").replace(dict(datasets)))


def mark_coco(path: Path, marks: pl.DataFrame) -> dict[str, bytes]:
    """The JSON of a file with `track_id` and `polyp` added to each annotation; null for none.

    Args:
        path: A file of annotations, or of a detector's results; any other file gives nothing.
        marks: See `Format`.

    Raises:
        PolyplinkError: If the file is not JSON.
    """
    content = load_json(path)
    rows = content.get("annotations") if isinstance(content, dict) else content
    if not isinstance(rows, list) or (isinstance(content, dict) and "images" not in content):
        return {}
    numbers = by_item(marks, len(rows))
    for row, track, polyp in zip(rows, numbers["track_id"], numbers["polyp"], strict=True):
        row |= {"track_id": track, "polyp": polyp}
    return {"": json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()}


def write_coco(data: DataSet, root: Path) -> None:
    """Write `annotations/instances_<part>.json`, one for each part; `import_coco` reads them.

    Procedures in no part are written into `instances.json`. Images are listed for frames with a
    box; the file name is the box's image, or `<procedure>_<frame>.jpg` without one. Facts of a
    polyp are repeated in each of its boxes. Lost: polyps without a box, parts without a procedure
    and folders of images.

    Args:
        data: The data set.
        root: Folder to write into; created if absent.

    Raises:
        PolyplinkError: If a procedure is in two parts, or a part's name cannot be in a file name.
    """
    parts: dict[str | None, Sequence[str]] = {part: ids for part, ids in data.splits.items() if ids}
    placed = Counter(name for ids in parts.values() for name in ids)
    repeated = next((name for name, number in placed.items() if number > 1), None)
    if repeated is not None:
        raise PolyplinkError(
            f"procedure {repeated!r} is in two parts", "write a data set without overlap"
        )
    unplaced = [i for i in data.procedures["procedure_id"] if i not in placed]
    if unplaced or not parts:
        parts[None] = unplaced
    for part, ids in parts.items():
        stem = _PREFIX if part is None else f"{_PREFIX}_{file_name(part, exact=True)}"
        text = json.dumps(_content(data, ids), separators=(",", ":"), ensure_ascii=False)
        write_text(root / "annotations" / f"{stem}.json", text)


def _content(data: DataSet, ids: Sequence[str]) -> dict[str, Any]:
    """The content of the file of some procedures, ready for JSON."""
    of_part = pl.col("procedure_id").is_in(list(ids))
    # Float32 to the shortest Float64 that rounds to the same value, so that JSON is short.
    plain = pl.col(pl.Float32).cast(pl.String).cast(pl.Float64)
    videos = data.procedures.filter(of_part).with_columns(plain).with_row_index("id", 1)
    boxes = data.detections.filter(of_part).with_columns(plain)

    # An image for each frame with a box.
    of_video = videos.select("procedure_id", "width", "height", video_id="id")
    key = ["procedure_id", "frame"]
    images = boxes.unique(key, keep="first", maintain_order=True).with_row_index("id", 1)
    images = images.join(of_video, on="procedure_id", how="left", maintain_order="left").select(
        "id",
        "width",
        "height",
        "video_id",
        file_name=pl.coalesce("image", pl.format("{}_{}.jpg", *key)),
        frame_id="frame",
        sequence_id="procedure_id",
    )

    # An annotation for each box, with the facts of its polyp.
    of_image = images.select(procedure_id="sequence_id", frame="frame_id", image_id="id")
    polyps = data.polyps.with_columns(plain).drop("procedure_id").rename(_FACTS)
    boxes = (
        boxes.join(of_image, on=key, how="left", maintain_order="left")
        .join(polyps, on="polyp_id", how="left", maintain_order="left")
        .select(
            "image_id",
            category_id=_CATEGORY,
            bbox=pl.concat_list("x", "y", "w", "h"),
            area=pl.col("w") * pl.col("h"),
            iscrowd=0,
            score="score",
            identity_id="polyp_id",
            histology_class="histology_class",
            **{key: pl.col(key) for key in _FACTS.values()},
        )
        .with_row_index("id", 1)
    )
    annotations = []
    for row in boxes.iter_rows(named=True):
        # A null class stays in the file: without the key `histology` would be read as the class.
        keep = "histology_class" if row["identity_id"] is not None else None
        annotations.append({k: v for k, v in row.items() if v is not None or k == keep})
    records = videos.rename({"procedure_id": "name"}).with_columns(length="n_frames").drop("source")
    return {
        "videos": records.to_dicts(),
        "images": images.to_dicts(),
        "categories": [{"id": _CATEGORY, "name": "polyp"}],
        "annotations": annotations,
    }


COCO = Format(import_coco, write_coco, ("images", "empty polyps"), mark_coco, archives=False)
