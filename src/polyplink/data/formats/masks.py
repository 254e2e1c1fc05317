"""Images with masks of their polyps, as in data sets for segmentation: masks become boxes."""

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.faults import Faults, with_value
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.images import Pixels, decode_image, image_size
from polyplink.data.files.text_tables import read_text_table
from polyplink.data.files.trees import image_names
from polyplink.data.formats.assemble import (
    BoxImport,
    ReadOptions,
    assemble,
    divide_by_size,
    first_of_frame,
    frame_span,
    no_polyp,
    number,
    read_tables,
)
from polyplink.data.formats.format import Format
from polyplink.data.formats.frame_names import (
    SUN_CLIP,
    name_frames,
    numbers_alone,
    only_frames,
)
from polyplink.data.formats.side_tables import whole_polyp_ids
from polyplink.data.tables import Imported

_CHUNK = 200  # masks that a worker reads at a time
_TOUCHING = np.ones((3, 3), dtype=np.int8)  # pixels that touch at a corner are connected
_BRIGHT = 32  # a mask without a brighter pixel is no picture: its pixels are numbers
_GREY_SHARE = 0.1  # of the pixels of a photograph, at least, are between dark and bright
_GREY_LEVELS = 50  # different ones, at least
_DIM = 1 / 8  # of the brightest pixel: darker pixels are background with the noise of JPEG
_DIM_SIDE = 11  # pixels: a dim area with a square of this side is no blurred edge
_MOST = 1 / 2  # of the pixels of a mask, if bright, are no polyp; of the masks, if inverted
# Additions of masks to an image's name.
_MARK = r"(?i)(?:[_-](?:mask|gt|segmentation|polyp|corrected)|^p(\d+))$"
_ENDING = rf"(?i)({'|'.join(map(re.escape, IMAGE_ENDINGS))})$"


def import_masks(
    source: Path,
    *,
    image_folder: str = "images",
    mask_folder: str = "masks",
    **options: Unpack[ReadOptions],
) -> Imported:
    """Read masks; every connected component of a mask is a box.

    A pixel belongs to a polyp if its strongest colour is brighter than half of the mask's maximum;
    a transparent pixel is dark. A darker grey area is warned of. A mask of small numbers (1, 2,
    ...), as programs write for instances, has the components of each number. A mask has the name of
    its image, optionally followed by `_mask`, `_gt`, `_segmentation`, `_polyp` (as in
    CVC-VideoClinicDB) or `_corrected` (PICCOLO), or with `p` before a number (ETIS-Larib).

    Procedure and frame are read from `frames.csv` in the source, if it exists, with the columns
    image (name with or without ending), procedure_id and optionally frame (otherwise numbered in
    the order of the rows) and polyp_id; the components of a known polyp become one box. Without the
    table they are read from the name (see `name_frames`): files named only by a number are frames
    of the procedure named as the source; any other file is the only frame of its own procedure. A
    procedure with frames of several sizes becomes one procedure for each size. In SUN-SEG the
    folder of a clip (case20_3) names its case, which is its patient. A photograph in place of a
    mask, and a mask of another size than its image, are left out. A mask that seems to be inverted
    is warned of, because a polyp may fill the image.

    Args:
        source: The folder that contains both folders.
        image_folder: Folder of the images, in the source.
        mask_folder: Folder of the masks, in the source; may be the same.
        options: See `ReadOptions`.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a folder is missing or contains no readable mask, no mask has the name of
            an image, or `frames.csv` lacks a column, has a frame that is not a whole number or
            several rows for an image, or lists none of the masks, or most masks are inverted; if
            strict, at the first fault.
    """
    reading = BoxImport(Path(os.path.realpath(source)), **options)  # realpath takes any loop
    faults = reading.faults

    # The masks, with image, procedure and frame.
    images, masks = source / image_folder, source / mask_folder
    for option, folder in (("image_folder", images), ("mask_folder", masks)):
        hint = f"name it with --{option.replace('_', '-')}"
        if not folder.is_dir():
            raise PolyplinkError(f"no folder {folder}", hint)
    frames = _pair(images, masks, faults)
    if frames.height == 0:
        raise PolyplinkError(
            f"{masks} has no mask (an image file named as its image)",
            "name the folder with --mask-folder",
        )
    frames = _place(frames, source, reading.first, faults).with_columns(
        image=pl.lit(f"{image_folder}/") + pl.col("image"),
        patient=pl.lit("case") + pl.col("stem").str.extract(SUN_CLIP),
    )
    frames = first_of_frame(frames, Message("import.further_mask"), "keep one of them", faults)

    # The connected components of each mask as boxes, and its size.
    read = partial(_read_masks, folder=masks, source=source, strict=reading.strict)
    names = frames.select("at", "image").rows()
    chunks = [names[i : i + _CHUNK] for i in range(0, len(names), _CHUNK)]
    boxes, sizes = read_tables(read, chunks, reading)
    _warn_of_inverted(sizes, masks, faults)
    sizes = sizes.drop("is_inverted")
    frames = frames.join(sizes, on="at", how="inner", maintain_order="left")
    frames = divide_by_size(frames, pl.lit(True), faults)
    procedures = frames.group_by("procedure_id", maintain_order=True).agg(
        pl.col("width", "height", "patient").first(), **frame_span(reading.first)
    )
    boxes = boxes.join(frames.drop("width", "height"), on="at", how="inner", maintain_order="left")

    # The components of a known polyp become one box: the smallest that contains them.
    known_polyp = pl.col("polyp_id").is_not_null()
    joined = (
        boxes.filter(known_polyp)
        .group_by("at", maintain_order=True)
        .agg(
            pl.exclude("x", "y", "w", "h").first(),
            x=pl.col("x").min(),
            y=pl.col("y").min(),
            w=(pl.col("x") + pl.col("w")).max() - pl.col("x").min(),
            h=(pl.col("y") + pl.col("h")).max() - pl.col("y").min(),
        )
    )
    boxes = pl.concat([boxes.filter(~known_polyp), joined.select(boxes.columns)])
    empty = frames.join(boxes, on="at", how="anti", maintain_order="left")
    return assemble(boxes, source, reading, procedures=procedures, empty=empty)


def _pair(images: Path, masks: Path, faults: Faults) -> pl.DataFrame:
    """Names of masks (`at`), their images (null if missing), and their names without ending.

    Raises:
        PolyplinkError: If there are masks and images, but no mask has the name of an image.
    """

    def stems(folder: Path) -> pl.DataFrame:
        """The image files of a folder, and their names without ending."""
        stem = pl.col("file").str.replace(_ENDING, "")
        return pl.DataFrame({"file": image_names(folder)}, {"file": pl.String}).select(
            "file", stem=stem
        )

    # The addition is part of the file name, not of its folders.
    folder = pl.col("stem").str.extract(r"^(.*/)").fill_null("")
    plain = folder + pl.col("stem").str.extract(r"([^/]*)$").str.replace(_MARK, "${1}")
    pictures = stems(images).rename({"file": "image"})
    mask_files = stems(masks).with_columns(plain=plain)
    if images.resolve() == masks.resolve():
        mask_files = mask_files.filter(pl.col("plain") != pl.col("stem"))
        pictures = pictures.join(mask_files, on="stem", how="anti", maintain_order="left")
    has_picture = pl.col("stem").is_in(pictures["stem"].to_list())
    stem = pl.when(has_picture).then("stem").otherwise("plain")
    mask_files = mask_files.select(at="file", stem=stem)
    frames = mask_files.join(pictures, on="stem", how="left", maintain_order="left")
    if not (frames.is_empty() or pictures.is_empty() or frames["image"].count()):
        raise PolyplinkError(
            f"no mask has the name of an image (the first are {masks / frames['at'][0]} and "
            f"{images / pictures['image'][0]})",
            "rename the masks, or name the folders with --image-folder and --mask-folder",
        )
    faults.warn_rows(Message("import.mask_without_image"), frames.filter(pl.col("image").is_null()))
    without_mask = pictures.join(mask_files, on="stem", how="anti", maintain_order="left")
    faults.warn_rows(Message("import.image_without_mask"), without_mask, "stem")
    return frames


def _place(frames: pl.DataFrame, source: Path, first: int, faults: Faults) -> pl.DataFrame:
    """Add procedure_id, frame and polyp_id.

    Args:
        frames: See `_pair`.
        source: The folder of `frames.csv`.
        first: Number of the first frame.
        faults: Extended by masks that the table does not list.

    Raises:
        PolyplinkError: If `frames.csv` is not such a table, or lists none of the masks.
    """
    path = source / "frames.csv"
    if not path.is_file():
        by_name = name_frames(frames["stem"]).drop("part")
        frames = numbers_alone(pl.concat([frames, by_name], how="horizontal"), source, faults)
        frames = only_frames(frames, pl.col("stem"), first, faults)
        return frames.with_columns(polyp_id=pl.lit(None, pl.String))
    table = _frame_table(path, first)
    unplaced = frames.join(table, on="stem", how="anti", maintain_order="left")
    faults.warn_rows(Message("import.unlisted_mask"), unplaced)
    placed = frames.join(table, on="stem", how="inner", maintain_order="left")
    if placed.height == 0:
        raise PolyplinkError(
            f"{path} lists none of {frames.height} masks (first: {frames['at'][0]})",
            "write the names of their images into its column image",
        )
    return placed


def _frame_table(path: Path, first: int) -> pl.DataFrame:
    """The columns procedure_id, stem (of an image), frame and polyp_id of `frames.csv`.

    Raises:
        PolyplinkError: If a column is missing, a frame is not a whole number, or an image has
            several rows.
    """
    needed = ("image", "procedure_id")
    table = whole_polyp_ids(read_text_table(path, needed))
    missing = sorted({*needed} - {*table.columns})
    if missing:
        raise PolyplinkError(
            f"{path} has no column {', '.join(missing)}", "write image and procedure_id"
        )
    frame = pl.int_range(pl.len(), dtype=pl.Int64).over("procedure_id") + first
    if "frame" in table.columns:
        frame = number("frame").cast(pl.Int64, strict=False)  # null beyond 64 bits
        is_whole = (frame == number("frame")).fill_null(False)
        wrong = table.filter((pl.col("frame").str.strip_chars() != "") & ~is_whole)["frame"]
        if wrong.len():
            raise PolyplinkError(
                f"{path}: frame {wrong[0]!r} is not a whole number", "number the frames"
            )
    polyp_id = pl.lit(None, pl.String)
    if "polyp_id" in table.columns:
        polyp_id = pl.when(~no_polyp("polyp_id")).then("polyp_id")
    image = pl.col("image").str.replace_all("\\", "/", literal=True)  # of Windows
    stem = image.str.replace(_ENDING, "")
    table = table.select("procedure_id", stem=stem, frame=frame, polyp_id=polyp_id).unique(
        maintain_order=True
    )
    repeated = table.filter(pl.col("stem").is_duplicated())["stem"]
    if repeated.len():
        raise PolyplinkError(
            f"{path} has several rows for the image {repeated[0]!r}",
            "write one row for each, without a polyp_id if it shows several polyps",
        )
    return table


def _read_masks(
    names: Sequence[tuple[str, str | None]], folder: Path, source: Path, strict: bool
) -> tuple[Faults, pl.DataFrame, pl.DataFrame]:
    """Read some masks: faults, boxes (at, x, y, w, h), and masks (at, width, height, is_inverted).

    Args:
        names: Each mask's name in the folder, and its image's name in the source.
        folder: Folder of the masks.
        source: The folder that contains both folders.
        strict: Whether the first fault is raised.
    """
    faults = Faults(strict)
    boxes, sizes = [], []
    for name, image in names:
        mask = decode_image((folder / name).read_bytes(), "L")  # h w
        if isinstance(mask, str):
            faults.fault(Message("import.broken_mask"), name, "replace it")
            continue
        if _is_photograph(mask):
            hint = "name the folders with --image-folder and --mask-folder"
            faults.fault(Message("import.photograph"), name, hint)
            continue
        size = (mask.shape[1], mask.shape[0])
        of_image = size if image is None else image_size(source / image)
        if isinstance(of_image, tuple) and of_image != size:
            place = with_value(name, "{} x {}, image {} x {}".format(*size, *of_image))
            faults.fault(Message("import.mask_size"), place, "scale it to the size of its image")
            continue
        from scipy import ndimage  # noqa: PLC0415 - slow to import

        areas = [mask > mask.max() / 2]
        if 1 < mask.max() < _BRIGHT:
            faults.warn(Message("import.mask_of_numbers"), name)
            areas = [mask == value for value in np.unique(mask[mask > 0])]
        elif _has_dim_area(mask):
            faults.warn(Message("import.dim_area"), name)
        sizes.append((name, *size, any(map(_is_background, areas))))
        for area in areas:
            labelled, _ = ndimage.label(area, _TOUCHING)
            for rows, columns in ndimage.find_objects(labelled):
                width, height = columns.stop - columns.start, rows.stop - rows.start
                boxes.append((name, columns.start, rows.start, width, height))
    of_boxes = {"at": pl.String, **dict.fromkeys("xywh", pl.Int64)}
    of_masks = {"at": pl.String, "width": pl.Int64, "height": pl.Int64, "is_inverted": pl.Boolean}
    return (
        faults,
        pl.DataFrame(boxes, schema=of_boxes, orient="row"),
        pl.DataFrame(sizes, schema=of_masks, orient="row"),
    )


def _is_background(area: npt.NDArray[np.bool_]) -> bool:
    """Whether an area (h, w) covers most of a mask and reaches all four edges of it.

    The polyp is dark in such a mask, and the background bright; or the polyp fills the image.
    """
    edges = area[0], area[-1], area[:, 0], area[:, -1]
    return bool(area.mean() > _MOST and all(edge.any() for edge in edges))


def _warn_of_inverted(masks: pl.DataFrame, folder: Path, faults: Faults) -> None:
    """Warn of masks that seem to be inverted.

    Args:
        masks: Columns at and is_inverted.
        folder: Folder of the masks.
        faults: Extended by the warning.

    Raises:
        PolyplinkError: If most masks seem to be inverted.
    """
    inverted = masks.filter("is_inverted")
    if inverted.height > _MOST * masks.height:
        raise PolyplinkError(
            f"{inverted.height} of {masks.height} masks are bright in most of the image and at its "
            f"four edges, as if inverted (first: {folder / inverted['at'][0]})",
            "invert them: polyps are bright, and the background is dark",
        )
    faults.warn_rows(Message("import.inverted_mask"), inverted)


def _has_dim_area(mask: Pixels) -> bool:
    """Whether a mask (h, w) has an area that is too dark for a polyp and too bright for background.

    A program that writes a grey for each polyp makes such masks, and so does one that writes
    probabilities.
    """
    brightest = int(mask.max())
    dim = (mask > brightest * _DIM) & (mask <= brightest / 2)
    if np.count_nonzero(dim) < _DIM_SIDE**2:
        return False
    from scipy import ndimage  # noqa: PLC0415 - slow to import

    return bool(ndimage.binary_erosion(dim, np.ones((_DIM_SIDE, _DIM_SIDE))).any())


def _is_photograph(mask: Pixels) -> bool:
    """Whether an image (h, w) is no mask, because it has many shades of grey in large areas."""
    brightest = int(mask.max())
    between = mask[(mask > brightest / 4) & (mask < brightest * 3 / 4)]
    return between.size > _GREY_SHARE * mask.size and len(np.unique(between)) >= _GREY_LEVELS


MASKS = Format(import_masks, archives=False)
