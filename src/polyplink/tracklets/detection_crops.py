"""Crops cut while a recording is decoded for the detector, so that it is decoded only once.

`kept/NAME.npy` holds the crops of a procedure and `kept/NAME.parquet` their areas. `prepare` with
the same crop factor and size reads them; if its tracklets need a crop that was not kept, or the
files are damaged, all crops of the procedure are cut again.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from polyplink.core.errors import PolyplinkError, warn_remade
from polyplink.core.text import file_name
from polyplink.data.files.images import Pixels
from polyplink.data.tables import read_table, write_table
from polyplink.tracklets.crops import (
    FrameCrops,
    crops_file,
    read_crops,
    release_pages,
)

COPIED_BYTES = 32 << 20  # crops in memory while copying
AREA = ("left", "top", "right", "bottom")
PLACES = pl.Schema(dict.fromkeys(("frame", *AREA), pl.Int64))


def saved_crop_paths(folder: Path, procedure_id: str) -> tuple[Path, Path]:
    """The files of a procedure's kept crops and of their areas in a data folder."""
    stem = file_name(procedure_id)
    return folder / "kept" / f"{stem}.npy", folder / "kept" / f"{stem}.parquet"


def write_saved_crops(
    folder: Path, procedure_id: str, places: pl.DataFrame, parts: Sequence[Path]
) -> None:
    """Keep the crops of a procedure.

    Args:
        folder: The data folder.
        procedure_id: The procedure.
        places: frame, left, top, right, bottom of each crop, in order.
        parts: .npy files (k, size, size, 3) that hold the crops, in order.
    """
    crops, table = saved_crop_paths(folder, procedure_id)
    arrays = [read_crops(part, "run the detector again") for part in parts]
    if not places.height:
        return
    with crops_file(crops, places.height, arrays[0].shape[1]) as file:
        for array in arrays:
            file.write(np.ascontiguousarray(array).data)
            release_pages(array)
    write_table(table, places)


def read_saved_crops(crops: Path, table: Path) -> tuple[Pixels, pl.DataFrame]:
    """Read crops (n, size, size, 3) and their places: row, frame, left, top, right, bottom.

    Raises:
        FileNotFoundError: If a file is missing.
        PolyplinkError: If a file is broken, or the two do not belong together.
    """
    hint = "run the detector again"
    pixels = read_crops(crops, hint)
    places = read_table(table, hint, PLACES).with_row_index("row")
    if len(places) != len(pixels):
        raise PolyplinkError(f"{table} is not of {crops}", hint)
    return pixels, places


def copy_saved_crops(
    folder: Path, procedure_id: str, frames: Sequence[FrameCrops], path: Path, size: int
) -> int | None:
    """Write the kept crops of some frames to a file of crops, unless one of them is missing.

    Few crops are in memory at a time. Damaged files are removed, which is printed.

    Args:
        folder: The data folder.
        procedure_id: The procedure.
        frames: The crops to copy, with their rows in the file.
        path: The file to write.
        size: Width and height of a crop, pixels.

    Returns:
        The number of crops; None if not all were kept, and nothing was written.

    Raises:
        OSError: If the files cannot be read, or damaged ones cannot be removed.
    """
    crops, table = saved_crop_paths(folder, procedure_id)
    if not (crops.is_file() and table.is_file()) or not frames:
        return None
    try:
        pixels, places = read_saved_crops(crops, table)
    except PolyplinkError:
        warn_remade(crops)
        for broken in (table, crops):
            broken.unlink(missing_ok=True)
        return None
    if pixels.shape[1] != size:
        return None
    areas = np.concatenate([frame.crops for frame in frames])  # n 4
    needed_areas = pl.DataFrame(areas, schema=dict.fromkeys(AREA, pl.Int64)).with_columns(
        frame=pl.Series([frame.frame for frame in frames for _ in frame.rows], dtype=pl.Int64)
    )
    place = ["frame", *AREA]
    distinct = places.unique(place, keep="first")  # boxes of one frame may have one area
    rows = needed_areas.join(distinct, place, how="left", maintain_order="left")["row"]
    if rows.null_count():
        return None
    # Sorted by row in the new file, which is written sequentially.
    ordered = rows.to_numpy()[np.argsort(np.concatenate([frame.rows for frame in frames]))]
    step = max(COPIED_BYTES // pixels[0].nbytes, 1)
    with crops_file(path, len(ordered), size) as file:
        for at in range(0, len(ordered), step):
            file.write(pixels[ordered[at : at + step]].data)
            release_pages(pixels)
    return len(ordered)
