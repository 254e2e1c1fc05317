"""Images with masks of their polyps, as data sets for segmentation come: a box for a component."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import polars as pl
from PIL import Image, UnidentifiedImageError
from scipy import ndimage

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.trees import walk_files
from polyplink.data.formats.assemble import (
    Options,
    ReadOptions,
    assemble,
    first_of_frame,
    name_frames,
    numbers_alone,
    read_tables,
    sizes_of_procedures,
)
from polyplink.data.tables import Imported

_CHUNK = 200  # masks that a worker reads at a time
_TOUCHING = np.ones((3, 3), dtype=np.int8)  # pixels that touch at a corner are of one component


def import_masks(
    source: Path,
    *,
    image_folder: str = "images",
    mask_folder: str = "masks",
    **options: Unpack[ReadOptions],
) -> Imported:
    """Read masks; every connected component of a mask is a box without a polyp.

    A pixel belongs to a polyp if it is brighter than half of the brightest. Procedure and frame
    come from the name (see `name_frames`); a file named by a number alone is a frame of the
    procedure named as the source, a file of another name the only frame of its own procedure.

    Args:
        source: The folder of both folders.
        image_folder: Folder of the images, in the source.
        mask_folder: Folder of the masks, PNG files named as their image.
        options: See `ReadOptions`.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If a folder is missing or holds no mask; if strict, at the first fault.
    """
    given = Options(**options)
    faults = Faults(given.strict)
    homes = {"image_folder": source / image_folder, "mask_folder": source / mask_folder}
    for option, home in homes.items():
        named = f"name it with --{option.replace('_', '-')}"
        PolyplinkError.unless(home.is_dir(), f"no folder {home}", named)
    masks = [n for n in sorted(walk_files(homes["mask_folder"])) if n.lower().endswith(".png")]
    PolyplinkError.unless(bool(masks), f"{homes['mask_folder']} has no mask (*.png)", "check it")
    files = sorted(walk_files(homes["image_folder"]))
    images = {n.rpartition(".")[0]: n for n in files if n.lower().endswith(IMAGE_ENDINGS)}
    bare = sorted(images.keys() - {name[:-4] for name in masks})
    faults.warn_rows("image without a mask, not read", pl.DataFrame({"at": bare}))
    lone = pl.DataFrame({"at": [n for n in masks if n[:-4] not in images]}, {"at": pl.String})
    faults.warn_rows("mask without an image", lone)
    frames = name_frames(pl.Series(masks, dtype=pl.String)).with_columns(at=pl.Series(masks))
    frames = numbers_alone(frames, source, faults)
    still = frames.filter(pl.col("frame").is_null())
    faults.warn_rows("image that is the only frame of its procedure", still)
    stem = pl.col("at").str.slice(0, pl.col("at").str.len_chars() - 4)
    path = stem.replace_strict(images, default=None, return_dtype=pl.String)
    frames = frames.with_columns(
        procedure_id=pl.coalesce("procedure_id", stem),
        frame=pl.col("frame").fill_null(given.first),
        image=pl.lit(f"{image_folder}/") + path,
    )
    frames = first_of_frame(frames, "mask", "keep one of them", faults)
    read = partial(_read, home=homes["mask_folder"], strict=given.strict)
    names = frames["at"].to_list()
    chunks = [names[i : i + _CHUNK] for i in range(0, len(names), _CHUNK)]
    boxes, sizes = read_tables(read, chunks, given, faults)
    sized = frames.join(sizes, on="at", how="inner", maintain_order="left")
    procedures = sized.group_by("procedure_id", maintain_order=True).agg(
        first=pl.col("frame").min() - given.first, last=pl.col("frame").max() + 1 - given.first
    )
    size = sizes_of_procedures(sized, faults)
    boxes = boxes.join(frames.drop("part"), on="at", how="inner", maintain_order="left")
    procedures = procedures.join(size, on="procedure_id", how="left", maintain_order="left")
    return assemble(boxes, source, source.stem, given, faults, procedures=procedures)


def _read(
    names: Sequence[str], home: Path, strict: bool
) -> tuple[Faults, pl.DataFrame, pl.DataFrame]:
    """Faults; boxes of some masks: at, x, y, w, h; and at, width, height of each mask."""
    faults = Faults(strict)
    boxes, sizes = [], []
    for name in names:
        try:
            with Image.open(home / name) as image:
                mask = np.asarray(image.convert("L"))  # h w
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
            faults.fault("mask that cannot be opened", name, "replace it")
            continue
        sizes.append((name, mask.shape[1], mask.shape[0]))
        labelled, _ = ndimage.label(mask > mask.max() / 2, _TOUCHING)
        for rows, columns in ndimage.find_objects(labelled):
            width, height = columns.stop - columns.start, rows.stop - rows.start
            boxes.append((name, columns.start, rows.start, width, height))
    whole = dict.fromkeys("xywh", pl.Int64)
    return (
        faults,
        pl.DataFrame(boxes, schema={"at": pl.String, **whole}, orient="row"),
        pl.DataFrame(
            sizes, schema={"at": pl.String, "width": pl.Int64, "height": pl.Int64}, orient="row"
        ),
    )
