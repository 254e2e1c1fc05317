"""Write a data set as COCO with the videos' and the papers' extras."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet

CATEGORY = 1


def write_coco(data: DataSet, root: Path) -> None:
    """Write `annotations/instances_<part>.json`, one for each part; `import_coco` reads them.

    Procedures in no part go into `instances.json`. Images are listed for frames with a box;
    the file name is the box's image, or `<procedure>_<frame>.jpg` where it has none. Facts of a
    polyp stand in each of its boxes. Not carried: polyps without a box, parts without a procedure
    and folders of images.

    Args:
        data: The data set.
        root: Folder to write into; made if absent.

    Raises:
        PolyplinkError: If a procedure is in two parts.
    """
    parts = _parts(data)
    for name, ids in parts.items():
        stem = "instances" if name is None else f"instances_{name}"
        text = json.dumps(_content(data, ids), separators=(",", ":"), ensure_ascii=False)
        write_text(root / "annotations" / f"{stem}.json", text)


def _parts(data: DataSet) -> dict[str | None, list[str]]:
    parts: dict[str | None, list[str]] = {name: ids for name, ids in data.splits.items() if ids}
    placed = [i for ids in parts.values() for i in ids]
    for name in placed:
        if placed.count(name) > 1:
            raise PolyplinkError(
                f"procedure {name!r} is in two parts", "write a data set whose parts are apart"
            )
    rest = [i for i in data.procedures["procedure_id"] if i not in set(placed)]
    return {**parts, None: rest} if rest or not parts else parts


def _plain(table: pl.DataFrame) -> pl.DataFrame:
    """Float32 to the shortest Float64 that gives the same back, so that JSON is short."""
    return table.with_columns(pl.col(pl.Float32).cast(pl.String).cast(pl.Float64))


def _content(data: DataSet, ids: list[str]) -> dict[str, Any]:
    of_part = pl.col("procedure_id").is_in(ids)
    procedures = _plain(data.procedures.filter(of_part)).with_row_index("video_id", 1)
    boxes = _plain(data.detections.filter(of_part)).join(
        procedures.select("procedure_id", "video_id", "width", "height", "dataset"),
        on="procedure_id",
        how="left",
        maintain_order="left",
    )
    frames = boxes.unique(["procedure_id", "frame"], keep="first", maintain_order=True)
    frames = frames.with_row_index("image_id", 1)
    polyps = _plain(data.polyps).drop("procedure_id")
    boxes = boxes.join(
        frames.select("procedure_id", "frame", "image_id"),
        on=["procedure_id", "frame"],
        how="left",
        maintain_order="left",
    ).join(polyps, on="polyp_id", how="left", maintain_order="left")
    return {
        "videos": list(_videos(procedures)),
        "images": list(_images(frames)),
        "categories": [{"id": CATEGORY, "name": "polyp"}],
        "annotations": list(_annotations(boxes)),
    }


def _videos(procedures: pl.DataFrame) -> Iterable[dict[str, Any]]:
    for row in procedures.drop("source").iter_rows(named=True):
        video_id = row.pop("video_id")
        yield {"id": video_id, "name": row.pop("procedure_id"), "length": row["n_frames"]} | row


def _images(frames: pl.DataFrame) -> Iterable[dict[str, Any]]:
    columns = ("image_id", "image", "procedure_id", "frame", "width", "height", "video_id")
    for i, image, procedure_id, frame, width, height, video_id in frames.select(
        columns
    ).iter_rows():
        yield {
            "id": i,
            "file_name": image or f"{procedure_id}_{frame}.jpg",
            "width": width,
            "height": height,
            "video_id": video_id,
            "frame_id": frame,
            "sequence_id": procedure_id,
        }


# Column of ours -> key of the papers.
_FACTS = {
    "histology": "histology",
    "size_mm": "size",
    "morphology": "morphology",
    "location": "location",
}


def _annotations(boxes: pl.DataFrame) -> Iterable[dict[str, Any]]:
    columns = ("image_id", "x", "y", "w", "h", "score", "polyp_id", "histology_class", *_FACTS)
    for i, row in enumerate(boxes.select(columns).iter_rows(), 1):
        image_id, x, y, w, h, score, polyp_id, histology_class, *told = row
        annotation: dict[str, Any] = {
            "id": i,
            "image_id": image_id,
            "category_id": CATEGORY,
            "bbox": [x, y, w, h],
            "area": w * h,
            "iscrowd": 0,
        }
        if score is not None:
            annotation["score"] = score
        if polyp_id is not None:
            annotation["identity_id"] = polyp_id
            annotation["histology_class"] = histology_class  # null too: else histology counts
            facts = zip(_FACTS.values(), told, strict=True)
            annotation |= {key: value for key, value in facts if value is not None}
        yield annotation
