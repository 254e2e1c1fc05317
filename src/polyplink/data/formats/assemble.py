"""From boxes that any format gave to the three tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import check_boxes, fit_boxes
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.folders import present
from polyplink.data.formats.polyp_rows import IDENTITIES, name_polyps, part_polyps, polyp_rows
from polyplink.data.formats.procedure_rows import (
    Size,
    complete_procedures,
    procedure_rows,
)
from polyplink.data.formats.side_tables import SideTables, read_side_tables
from polyplink.data.imported import Imported
from polyplink.data.tables import DataSet


@dataclass(frozen=True)
class Found:
    """What a format's files hold.

    Attributes:
        boxes: From `box_table`.
        procedures: procedure_id and any columns of `PROCEDURES`.
        polyps: procedure_id, polyp_id and any columns of `POLYPS`.
        splits: Part to procedure ids.
    """

    boxes: pl.DataFrame
    procedures: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"procedure_id": pl.String})
    )
    polyps: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(
            schema={"procedure_id": pl.String, "polyp_id": pl.String}
        )
    )
    splits: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What a caller says to every general format.

    Attributes:
        images: Name each box's image, where it is there.
        dataset: Name of the data set where its files have none; None: the source's own name.
        size: Width and height of every frame, pixels; None: as the source says.
        identity: "track": a track is a polyp; "none": identities are not known.
        first_frame: The number that the source gives to the first frame of a video.
    """

    images: bool = True
    dataset: str | None = None
    size: Size | None = None
    identity: str = "track"
    first_frame: int = 0

    def __post_init__(self) -> None:
        PolyplinkError.unless(
            self.identity in IDENTITIES,
            f"no identity {self.identity!r}",
            f"choose one of: {', '.join(IDENTITIES)}",
        )


def assemble(found: Found, folder: Path, name: str, options: Options, faults: Faults) -> Imported:
    """Check boxes, complete procedures and polyps, and join the tables.

    Args:
        found: What the files hold.
        folder: Folder that image paths are relative to, and of the side tables.
        name: The source's name, for the data set where nobody names it.
        options: The caller's.
        faults: What is known by now to be odd.

    Raises:
        PolyplinkError: If no box can be used, or a procedure's frames have no size; if strict,
            at the first fault.
    """
    side = read_side_tables(folder, faults)
    boxes = found.boxes.with_columns(pl.col("frame") - options.first_frame)
    _tell_of_a_first_frame(boxes, options, faults)
    boxes = check_boxes(boxes, faults)
    _require_a_box(found.boxes, boxes, faults)
    boxes = _name_polyps(boxes, side, options, faults)
    defaults = {"dataset": options.dataset or name, "source": str(folder.resolve())}
    rows = procedure_rows(_sized(found.procedures, options), side.procedures, boxes, defaults)
    if options.size is not None:
        width, height = options.size
        rows = rows.with_columns(
            width=pl.lit(width, dtype=pl.Int32), height=pl.lit(height, dtype=pl.Int32)
        )
    procedures = complete_procedures(rows, boxes, faults)
    boxes = fit_boxes(boxes, procedures, faults)
    boxes = _with_images(boxes, procedures, options.images, faults)
    told = found.polyps if options.identity != "none" else found.polyps.clear()
    facts = pl.concat([side.polyps.drop("track"), told], how="diagonal_relaxed")
    boxes, facts = part_polyps(boxes, facts, faults)
    polyps = polyp_rows(boxes, facts, faults)
    _tell_of_split_procedures(found.splits, faults)
    return Imported(DataSet.of(boxes, procedures, polyps, found.splits), faults.lines())


def _sized(procedures: pl.DataFrame, options: Options) -> pl.DataFrame:
    return procedures if options.size is None else procedures.drop("width", "height", strict=False)


def _name_polyps(
    boxes: pl.DataFrame, side: SideTables, options: Options, faults: Faults
) -> pl.DataFrame:
    if options.identity == "none":
        return boxes.drop("track").with_columns(polyp_id=pl.lit(None, dtype=pl.String))
    return name_polyps(boxes, side.polyps, faults)


def _with_images(
    boxes: pl.DataFrame, procedures: pl.DataFrame, wanted: bool, faults: Faults
) -> pl.DataFrame:
    """Images that are there; a procedure without any has none, one that lacks some loses boxes."""
    if not wanted:
        return boxes.with_columns(image=pl.lit(None, dtype=pl.String))
    source = procedures.select("procedure_id", "source")
    boxes = boxes.join(source, on="procedure_id", how="left", maintain_order="left")
    boxes = boxes.with_columns(there=present(boxes["image"], boxes["source"]))
    some = pl.col("there").fill_null(False).any().over("procedure_id")
    bare = boxes.filter(~some & pl.col("image").is_not_null())
    if bare.height:
        faults.warn(
            "procedure of which no image is there",
            bare["image"][0],
            bare["procedure_id"].n_unique(),
        )
    boxes = boxes.with_columns(image=pl.when(some).then("image"))
    missing = pl.col("image").is_not_null() & ~pl.col("there")
    at = pl.when(missing).then("image").otherwise("at").alias("at")
    boxes = leave_out(
        boxes.with_columns(at),
        missing,
        "frame with a box without an image",
        "put the image there, or import without images",
        faults,
    )
    return boxes.drop("there", "source")


def _require_a_box(before: pl.DataFrame, after: pl.DataFrame, faults: Faults) -> None:
    if before.height and after.is_empty():
        left_out = next(line for line in faults.lines() if "left out" in line)
        raise PolyplinkError(
            f"none of {before.height} boxes can be used: {left_out}", "mend them at the source"
        )


def _tell_of_a_first_frame(boxes: pl.DataFrame, options: Options, faults: Faults) -> None:
    if options.first_frame == 0 and boxes["frame"].min() == 1:
        faults.warn(
            "source whose lowest frame number is 1, taken as the second frame "
            "(say so if its numbers begin there)",
            boxes.filter(pl.col("frame") == 1)["at"][0],
        )


def _tell_of_split_procedures(splits: Mapping[str, list[str]], faults: Faults) -> None:
    ids = [i for part in splits.values() for i in part]
    for twice in sorted({i for i in ids if ids.count(i) > 1}):
        faults.warn("procedure in more than one part", twice)
