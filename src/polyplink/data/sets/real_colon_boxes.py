"""The annotations of one REAL-Colon procedure, read into boxes.

Source: Biffi et al., Scientific Data 2024, 11:539; boxes are rounded and clamped as in the
exporter that its authors released.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.sets.real_colon_files import annotation_texts, image_names
from polyplink.data.sets.voc import VocFrame, VocObject, parse_voc

_BOX_COLUMNS = {
    "frame": pl.Int32(),
    "name": pl.String(),
    "polyp_id": pl.String(),
    "image": pl.String(),
}


@dataclass(frozen=True)
class ProcedureBoxes:
    """What the annotations of one procedure hold.

    Attributes:
        width: Frame width, pixels.
        height: Frame height, pixels.
        n_files: Annotation files, one for each frame.
        boxes: Columns frame, x, y, w, h (pixels), polyp_id, image; in the order of the frames.
        faults: What was left out, and what is odd.
    """

    width: int
    height: int
    n_files: int
    boxes: pl.DataFrame
    faults: Faults


@dataclass(frozen=True)
class ProcedureSource:
    """Where the annotations of one procedure are, and what they may name.

    Attributes:
        procedure_id: The procedure.
        annotations: Folder of its XML files, or their archive.
        frames: Folder of its images, or their archive; None where there are none or they are not
            wanted.
        polyp_ids: Lesions the procedure has.
        strict: Whether faults are raised instead of left out and counted.
    """

    procedure_id: str
    annotations: Path
    frames: Path | None
    polyp_ids: Collection[str]
    strict: bool


def read_boxes(source: ProcedureSource) -> ProcedureBoxes:
    """Read all annotations of a procedure.

    Args:
        source: Which procedure, and where.

    Returns:
        Its boxes, edges rounded and clamped to [0, W-1] and [0, H-1], w = right - left and
        h = bottom - top.

    Raises:
        PolyplinkError: If there are no annotations or their archive is not whole, or, if strict,
            at the first file that is broken, box that is not finite, outside the image, of no area
            or of an unknown polyp, and frame whose box has no image.
    """
    faults = Faults(source.strict)
    files, frames = _read_frames(source.annotations, faults)
    if not files:
        raise PolyplinkError(
            f"{source.annotations} has no annotations (*.xml)", "unpack the archive again"
        )
    if not frames:
        raise PolyplinkError(
            f"{source.annotations} has no annotation that can be read", "unpack the archive again"
        )
    first = next(iter(frames.values()))
    for number, frame in frames.items():
        if (frame.width, frame.height) != (first.width, first.height):
            faults.warn("frame of another size than the procedure's first", files[number])
    boxes = _boxes(source, files, frames, faults)
    return ProcedureBoxes(first.width, first.height, len(files), boxes, faults)


def _read_frames(place: Path, faults: Faults) -> tuple[dict[int, str], dict[int, VocFrame]]:
    """File names, and what they say, by frame number in the order of the numbers."""
    files: dict[int, str] = {}
    frames: dict[int, VocFrame] = {}
    for number, name, text in annotation_texts(place):
        files[number] = name
        try:
            frames[number] = parse_voc(text, f"{place}{os.sep}{name}")
        except PolyplinkError as error:
            if faults.strict:
                raise
            faults.warn("annotation file that cannot be read, left out", error.what)
    return dict(sorted(files.items())), dict(sorted(frames.items()))


def _boxes(
    source: ProcedureSource,
    files: Mapping[int, str],
    frames: Mapping[int, VocFrame],
    faults: Faults,
) -> pl.DataFrame:
    images = image_names(source.frames, dict(files))
    kept = [
        (number, frame, box)
        for number, frame in frames.items()
        for box in frame.objects
        if _known(box, source, files[number], faults)
        and _has_image(number, images, source, files[number], faults)
    ]
    edges = np.array([(b.xmin, b.ymin, b.xmax, b.ymax) for _, _, b in kept], dtype=np.float64)
    sizes = np.array([(f.width, f.height) for _, f, _ in kept], dtype=np.float64)
    edges, sizes = edges.reshape(-1, 4), sizes.reshape(-1, 2)  # n x 4, n x 2; n may be 0
    names = [files[number] for number, _, _ in kept]
    xywh = to_xywh(edges, sizes).astype(np.float32)  # n x 4
    table = pl.DataFrame(
        {
            "frame": [number for number, _, _ in kept],
            "name": names,
            "polyp_id": [box.unique_id for _, _, box in kept],
            "image": [images.get(number) for number, _, _ in kept],
        },
        schema=_BOX_COLUMNS,
    ).with_columns(pl.Series(column, xywh[:, i]) for i, column in enumerate("xywh"))
    table = table.filter(pl.Series(_usable(edges, sizes, names, faults)))
    _warn_of_boxes(table, faults)
    return table.drop("name")


def to_xywh(edges: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn box edges into corner and size as the released exporter does.

    Args:
        edges: n x 4, left, top, right, bottom in pixels.
        sizes: n x 2, width W and height H of each box's frame in pixels.

    Returns:
        n x 4: x, y, w, h. Edges are rounded (half to even), then clamped to [0, W-1] and
        [0, H-1]; w = right - left and h = bottom - top, without 1 added.
    """
    limits = np.tile(sizes - 1, 2)  # n x 4
    clamped = np.clip(np.rint(edges), 0, limits)  # n x 4
    return np.concatenate([clamped[:, :2], clamped[:, 2:] - clamped[:, :2]], axis=1)


def _known(box: VocObject, source: ProcedureSource, name: str, faults: Faults) -> bool:
    if box.unique_id is None or box.unique_id in source.polyp_ids:
        return True
    faults.fault(
        "box of a polyp that lesion_info.csv does not list for the procedure",
        f"{source.annotations / name}, {box.unique_id}",
        "add its row to lesion_info.csv",
    )
    return False


def _has_image(
    number: int, images: Mapping[int, str], source: ProcedureSource, name: str, faults: Faults
) -> bool:
    if source.frames is None or number in images:
        return True
    faults.fault(
        "frame with a box without an image",
        str(source.frames / Path(name).with_suffix(".jpg")),
        "unpack the frames again, import without images",
    )
    return False


def _usable(
    edges: NDArray[np.float64], sizes: NDArray[np.float64], names: list[str], faults: Faults
) -> NDArray[np.bool_]:
    """Which of n boxes can be kept; the others are faults, told in the order of the frames."""
    finite: NDArray[np.bool_] = np.all(np.isfinite(edges), axis=1)
    outside: NDArray[np.bool_] = np.any(
        np.hstack([edges[:, 2:] < 0, edges[:, :2] > sizes - 1]), axis=1
    )
    flat: NDArray[np.bool_] = np.any(to_xywh(edges, sizes)[:, 2:] <= 0, axis=1)
    for i in np.flatnonzero(~finite | outside | flat):
        kind = "of no area"
        if outside[i]:
            kind = "wholly outside the image"
        if not finite[i]:
            kind = "with an edge that is not finite"
        left, top, right, bottom = edges[i]
        faults.fault(
            f"box {kind}",
            f"{names[i]} ({left:g}, {top:g}, {right:g}, {bottom:g})",
            "correct the box or take it out",
        )
    return finite & ~outside & ~flat


def _warn_of_boxes(table: pl.DataFrame, faults: Faults) -> None:
    unnamed = table.filter(pl.col("polyp_id").is_null())
    if unnamed.height:
        faults.warn("box without unique_id", unnamed["name"][0], unnamed.height)
    named = table.filter(pl.col("polyp_id").is_not_null())
    twice = named.filter(~pl.struct("frame", "polyp_id").is_first_distinct())
    if twice.height:
        faults.warn(
            "further box of a polyp in one frame, both kept", twice["name"][0], twice.height
        )
