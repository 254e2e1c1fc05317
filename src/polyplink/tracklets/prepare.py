"""Prepare a data set: tracklets and crops, made once; a killed run is continued."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet, read_data, write_table
from polyplink.simulate import is_simulation
from polyplink.tracklets.boxes import enlarge
from polyplink.tracklets.build import BOX, build_tracklets
from polyplink.tracklets.crops import FrameCrops, refuse_broken
from polyplink.tracklets.fragments import procedure_positions, spans_of
from polyplink.tracklets.prepared import (
    Prepared,
    PrepareSettings,
    check_procedures,
    crops_path,
    load_prepared,
    prepared_folder,
)
from polyplink.tracklets.rendered import Rendering, render_all
from polyplink.tracklets.sources import prefetch, write_crops

Progress = Callable[[int, int], None]  # crops written so far, crops in all


def prepare(
    folder: Path,
    settings: PrepareSettings | None = None,
    *,
    procedures: Sequence[str] | None = None,
    with_crops: bool = True,
    strict: bool = False,
    workers: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Prepared:
    """Make the tracklets and crops of a data folder, under prepared/key.

    The tables cover the whole data set; crops are made procedure by procedure, each file whole
    or absent. Called again, it makes what is missing, and returns at once if nothing is. A frame
    that cannot be decoded is listed, and its tracklet cut there (see `prepared.cut_tracklets`).
    The key hashes the tables and the settings: image files that change under the same names go
    unnoticed.

    Args:
        folder: A data folder (see `polyplink.data.tables.read_data`).
        settings: None for the defaults.
        procedures: Crop these alone, and return them alone; None for all.
        with_crops: False for the tables alone, which need no images.
        strict: Raise at a frame that cannot be decoded, one found by an earlier run included.
        workers: Threads, or processes that render; None for one per core.
        device: Renders the crops of a simulated set whose frames were not written.
        progress: Callback with crops written (earlier runs' included) and crops in all.

    Raises:
        PolyplinkError: If the folder is no data folder, a procedure is unknown, an image is
            missing or of another size, no image of a procedure decodes, the disk is full, or, if
            strict, one image does not decode.
    """
    settings = settings or PrepareSettings()
    if workers is not None and workers < 1:
        raise PolyplinkError(f"{workers} workers", "give 1 or more")
    data = read_data(folder)
    wanted = list(data.part(None) if procedures is None else procedures)
    check_procedures(wanted, data.part(None))
    target = prepared_folder(folder, data, settings)
    record = RunRecord("prepare", settings=settings, inputs={"data": data.key})
    with _disk_full_is_an_error(target):
        if not (target / "tracklets.parquet").is_file():
            with record.stage("tracklets"):
                _write_tables(target, data, settings)
        prepared = load_prepared(target, data, settings).select(wanted)
        missing = [name for name in wanted if not crops_path(target, name).is_file()]
        if with_crops and missing:
            with record.stage("crops"):
                count = workers or os.cpu_count() or 1
                _write_crops(
                    prepared,
                    missing,
                    folder,
                    strict=strict,
                    workers=count,
                    device=device,
                    progress=progress,
                )
            prepared = load_prepared(target, data, settings).select(wanted)
        if record.seconds or not (target / "run.json").is_file():
            record.write(target)
    for name, frames in prepared.broken().items() if strict else ():
        refuse_broken(frames[0], crops_path(target, name))
    return prepared


@contextmanager
def _disk_full_is_an_error(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise PolyplinkError(
            f"the disk of {target} is full",
            "free disk space and run it again: it continues where it stopped",
        ) from None


def _write_tables(target: Path, data: DataSet, settings: PrepareSettings) -> None:
    detections, tracklets = build_tracklets(
        data.detections, max_gap=settings.max_gap, min_iou=settings.min_iou
    )
    tracklets = sampled(tracklets, settings)
    tracklets = tracklets.with_columns(procedure_positions(tracklets, spans_of(detections)))
    # The tracklets last: where they are, the detections are too.
    for name, table in (("detections", detections), ("tracklets", tracklets)):
        write_table(target / f"{name}.parquet", table)


def sampled(tracklets: pl.DataFrame, settings: PrepareSettings) -> pl.DataFrame:
    """Keep tracklets that are long enough and number their crops.

    Args:
        tracklets: From `build_tracklets`.
        settings: `min_length` and `stride` are used.

    Returns:
        Those of at least `min_length` boxes, with crop_first (row in the procedure's crops) and
        n_crops (every `stride`-th box from the first).
    """
    n_crops = (pl.col("n") + settings.stride - 1) // settings.stride
    return (
        tracklets.filter(pl.col("n") >= settings.min_length)
        .with_columns(n_crops.cast(pl.Int32).alias("n_crops"))
        .with_columns(
            (pl.col("n_crops").cum_sum() - pl.col("n_crops"))
            .over("procedure_id")
            .cast(pl.Int32)
            .alias("crop_first")
        )
        .select(*tracklets.columns, "crop_first", "n_crops")
    )


def _write_crops(
    prepared: Prepared,
    missing: Sequence[str],
    folder: Path,
    *,
    strict: bool,
    workers: int,
    device: str,
    progress: Progress | None,
) -> None:
    rows = {row["procedure_id"]: row for row in prepared.data.procedures.iter_rows(named=True)}
    total = int(prepared.tracklets["n_crops"].sum())
    done = total - int(prepared.select(missing).tracklets["n_crops"].sum())

    def tick(crops: int) -> None:
        nonlocal done
        done += crops
        if progress is not None:
            progress(done, total)

    renderings = []
    size = prepared.settings.size
    with prefetch(workers) as pool:
        for procedure_id in missing:
            row = rows[procedure_id]
            part = prepared.select([procedure_id])
            source = folder / row["source"]
            frames = frame_crops(part, row)
            path = crops_path(prepared.folder, procedure_id)
            lost = next((frame for frame in frames if frame.image is None), None)
            if is_simulation(source) and all(frame.image is None for frame in frames):
                renderings.append(Rendering(path, source, procedure_id, frames, size, device))
            elif lost is None:
                write_crops(path, frames, source, size, pool=pool, tick=tick, strict=strict)
            else:
                raise PolyplinkError(
                    f"procedure {procedure_id!r}, frame {lost.frame}: no image",
                    "import the data with its images; `polyplink prepare --no-crops` gives "
                    "tracklets alone",
                )
    render_all(renderings, workers, tick)


def frame_crops(part: Prepared, procedure: dict[str, Any]) -> list[FrameCrops]:
    """The crops of each frame of one procedure.

    Args:
        part: One procedure's part.
        procedure: Its row of the procedures table.
    """
    stride, factor = part.settings.stride, part.settings.crop_factor
    counts = part.tracklets["n_crops"].to_numpy().astype(np.int64)  # n
    crop = np.arange(counts.sum())  # crops
    within = crop - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(part.tracklets["offset"].to_numpy(), counts) + stride * within
    boxes = part.detections[rows]
    width, height = procedure["width"], procedure["height"]
    cuts = enlarge(boxes.select(BOX).to_numpy(), factor, width, height)  # crops 4
    images, frames = boxes["image"].to_list(), boxes["frame"].to_list()
    groups: dict[str | int, list[int]] = {}
    for row in np.argsort(boxes["frame"].to_numpy(), kind="stable").tolist():
        image = images[row]
        groups.setdefault(frames[row] if image is None else image, []).append(row)
    return [
        FrameCrops(images[found[0]], frames[found[0]], width, height, np.array(found), cuts[found])
        for found in groups.values()
    ]
