"""One COCO annotation file as columns.

Sources: cocodataset.org (format), its extensions for videos (`videos`, `video_id`, `frame_index`
or `frame_id`), and the extras of NTSSL (arXiv 2605.12320; github lparolari/ntssl, README):
`sequence_id` (the video), `frame_id` (place in it) and `dataset_id` of images, `identity_id`,
`histology`, `size` (mm), `morphology`, `location` of annotations.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults, leave_out
from polyplink.data.formats import json_columns as js
from polyplink.data.formats.coco_files import CocoFile, image_prefix
from polyplink.data.formats.frame_names import name_frames
from polyplink.data.tables import PROCEDURES

_NAMES = ("identity_id", "polyp_id")  # of a polyp, as a whole
_TRACKS = ("track_id", "instance_id")  # a number may mean something in its video alone
_FRAMES = ("frame_index", "frame_id", "frame_number")
_SIZES = ("size", "size_mm")
# `dataset3_004-005_1` is of the video `dataset3_004-005`; other identities are videos themselves.
_IDENTITY = r"^(.*\d+-\d+)_\d+$"


@dataclass(frozen=True)
class CocoRead:
    """What one file holds.

    Attributes:
        images: at, id, procedure_id, frame, image, width, height, dataset.
        boxes: at, image_id, x, y, w, h, score, polyp_id, track, and facts of the polyp.
        videos: procedure_id and columns of `PROCEDURES`.
        part: The file's part.
        categories: Names of the categories that have boxes.
        faults: What was left out.
    """

    images: pl.DataFrame
    boxes: pl.DataFrame
    videos: pl.DataFrame
    part: str | None
    categories: list[str]
    faults: Faults


def read_coco(file: CocoFile, strict: bool, results: Path | None = None) -> CocoRead:
    """Read one annotation file.

    Args:
        file: Which, and of which data set.
        strict: Raise at the first fault.
        results: A detector's boxes (a list of image_id, category_id, bbox, score), which take the
            place of the file's own.

    Raises:
        PolyplinkError: If a file is no whole COCO; if strict, at the first annotation that is
            none of an image, of a category or of four numbers.
    """
    content = js.load_json(file.path)
    name = file.path.name
    if not isinstance(content, dict) or not {"images", "annotations"} <= set(content):
        raise PolyplinkError(
            f"{file.path} has no lists `images` and `annotations`",
            "give COCO annotations of instances (results alone name no images: give them beside)",
        )
    faults = Faults(strict)
    videos = _videos(js.Records(content.get("videos"), f"{name}: videos"))
    boxes_name = name if results is None else results.name
    found = content["annotations"] if results is None else js.load_json(results)
    annotations = js.Records(found, f"{boxes_name}: annotations")
    images = _images(js.Records(content["images"], f"{name}: images"), videos, file, faults)
    boxes = _boxes(annotations, boxes_name)
    boxes, categories = _of_categories(boxes, content.get("categories"), name, faults)
    boxes = _of_images(boxes, images, faults)
    images = _by_identity(images, boxes, faults)
    return CocoRead(images, boxes, videos.drop("id"), file.part, categories, faults)


def _videos(rows: js.Records) -> pl.DataFrame:
    """Videos under their name, or their id where they have none."""
    ids = rows.texts("id")
    columns: dict[str, pl.Series] = {"id": ids}
    for name, column in PROCEDURES.items():
        found = rows.values(name)
        columns[name] = js.numbers(found) if column.dtype.is_numeric() else js.texts(found)
    length = rows.numbers("length")
    named = rows.texts("name")
    return (
        pl.DataFrame(columns)
        .with_columns(
            procedure_id=pl.coalesce(pl.Series("named", named), pl.col("id")),
            n_frames=pl.coalesce(pl.col("n_frames"), pl.Series("length", length)),
        )
        .unique("id", keep="first", maintain_order=True)
    )


def _images(rows: js.Records, videos: pl.DataFrame, file: CocoFile, faults: Faults) -> pl.DataFrame:
    """Images with the procedure and frame that their record or, at last, their name tells."""
    table = pl.DataFrame(
        {
            "id": rows.texts("id"),
            "file_name": rows.texts("file_name"),
            "video": rows.texts("video_id"),
            "sequence": rows.texts("sequence_id"),
            "number": rows.numbers(*_FRAMES),
            "width": rows.numbers("width"),
            "height": rows.numbers("height"),
            "dataset": rows.texts("dataset_id"),
        }
    )
    table = table.with_columns(at=pl.format("{}, image {}", pl.lit(file.path.name), "id"))
    table = leave_out(
        table, pl.col("id").is_null(), "image without an id", "give every image an id", faults
    )
    table = leave_out(
        table,
        ~pl.col("id").is_first_distinct(),
        "further image of the same id",
        "give every image its own id",
        faults,
    )
    names = table["file_name"]
    first = names.drop_nulls()
    prefix = image_prefix(file, first[0]) if first.len() else ""
    by_name = name_frames(names).select(by_name="procedure_id", number_by_name="frame")
    named = videos.select(video="id", by_video="procedure_id")
    table = table.hstack(by_name).join(named, on="video", how="left", maintain_order="left")
    return table.select(
        "at",
        "id",
        "by_name",
        "width",
        "height",
        "dataset",
        procedure_id=pl.coalesce("by_video", "sequence"),
        frame=pl.coalesce(pl.col("number"), pl.col("number_by_name").cast(pl.Float64)),
        image=pl.lit(prefix) + pl.col("file_name"),
    )


def _boxes(rows: js.Records, name: str) -> pl.DataFrame:
    track = rows.texts(*_TRACKS)
    named = rows.texts(*_NAMES)
    number = track.str.contains(r"^-?\d+$")
    facts = {key: rows.texts(key) for key in ("morphology", "location", "histology")}
    # Where a file knows one word alone, it is the data set's class.
    classes = "histology_class" if "histology_class" in rows.keys else "histology"
    table = js.boxes(rows.values("bbox")).with_columns(
        at=pl.format("{}, annotation {}", pl.lit(name), pl.Series(rows.texts("id"))),
        image_id=rows.texts("image_id"),
        category=rows.texts("category_id"),
        crowd=rows.numbers("iscrowd"),
        score=rows.numbers("score"),
        name=named,
        track=track,
        size_mm=rows.numbers(*_SIZES),
        histology_class=rows.texts(classes),
        **facts,
    )
    place = pl.format("{}, entry {}", pl.lit(name), pl.int_range(1, pl.len() + 1))
    return table.with_columns(
        at=pl.col("at").fill_null(place),
        polyp_id=pl.coalesce("name", pl.when(~pl.Series(number)).then("track")),
        track=pl.when(pl.Series(number) & ~pl.col("track").str.starts_with("-")).then("track"),
    ).drop("name")


def _of_categories(
    boxes: pl.DataFrame, listed: Any, name: str, faults: Faults
) -> tuple[pl.DataFrame, list[str]]:
    """Boxes of a category that is listed, and single ones; names of the categories."""
    categories = js.Records(listed, f"{name}: categories")
    names = dict(
        zip(
            categories.texts("id"),
            categories.texts("name"),
            strict=True,
        )
    )
    boxes = leave_out(
        boxes,
        ~pl.col("category").is_in([i for i in names if i is not None]).fill_null(False)
        & pl.lit(bool(names)),
        "box of a category that is not listed",
        "add the category to `categories`",
        faults,
    )
    boxes = leave_out(
        boxes,
        pl.col("crowd") == 1,
        "box of a crowd (iscrowd), not of one polyp",
        "write a box for each polyp",
        faults,
    )
    used = boxes["category"].drop_nulls().unique().sort()
    return boxes.drop("category", "crowd"), [names.get(i) or i for i in used]


def _of_images(boxes: pl.DataFrame, images: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    known = images["id"].implode()
    return leave_out(
        boxes,
        ~pl.col("image_id").is_in(known).fill_null(False),
        "box of an image that is not listed",
        "add the image to `images`",
        faults,
    )


def _by_identity(images: pl.DataFrame, boxes: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Fill the procedure of images without video: from their boxes' identity, else their name."""
    bare = images["procedure_id"].is_null()
    identities = boxes.filter(pl.col("polyp_id").is_not_null())
    if bare.any() and identities.height:
        videos = identities.unique("image_id", keep="first", maintain_order=True).select(
            id="image_id",
            of_identity=pl.coalesce(pl.col("polyp_id").str.extract(_IDENTITY), "polyp_id"),
        )
        images = images.join(videos, on="id", how="left", maintain_order="left")
        missing = pl.col("procedure_id").is_null() & pl.col("of_identity").is_null()
        rows = images.filter(missing & ~pl.col("id").is_in(boxes["image_id"].implode()))
        if rows.height:
            faults.warn(
                "image without box and sequence_id, not counted", rows["at"][0], rows.height
            )
        images = images.filter(~pl.col("id").is_in(rows["id"].implode()))
        images = images.with_columns(
            procedure_id=pl.coalesce("procedure_id", "of_identity", "by_name")
        ).drop("of_identity")
    return images.with_columns(procedure_id=pl.coalesce("procedure_id", "by_name")).drop("by_name")
