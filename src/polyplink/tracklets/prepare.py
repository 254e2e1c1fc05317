"""Prepare a data set: build its tracklets, and store their crops as arrays on disk.

Crops are cut and keyed by procedure, so that a procedure added to a data set causes no work for the
others. A killed run is continued, and several processes share the work.
"""

import dataclasses
import errno
import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError, warn, warn_remade
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.runs import PAUSE, RunRecord, claim_unmade, file_claim, until_done
from polyplink.core.text import file_name, first_names, many, short_repr
from polyplink.core.workers import as_done
from polyplink.data.files.image_names import image_place
from polyplink.data.files.images import Pixels
from polyplink.data.tables import DataSet, read_data, read_table_with_metadata, write_table
from polyplink.tracklets.box_runs import (
    BOX,
    Spans,
    add_positions,
    box_rows,
    build_tracklets,
    frame_rates,
    spans_of,
)
from polyplink.tracklets.crops import (
    BrokenFrame,
    FrameCrops,
    broken_path,
    crop_source,
    enlarge,
    read_broken,
    read_crops,
    refuse_broken,
    render_crops,
    write_crops,
)
from polyplink.tracklets.detection_crops import copy_saved_crops
from polyplink.tracklets.sampling import cut_tracklets, fragments, sample_crops
from polyplink.tracklets.scenes import read_scenes
from polyplink.tracklets.settings import PrepareSettings

FORMAT = 6  # version of the folder's format, part of all keys
PREPARED = "prepared"  # folder in a data folder for tracklets, crops and vectors
PICTURES_DATED = 16  # pictures of a procedure that are compared with its crops, at most


@dataclass(frozen=True)
class Prepared:
    """A data set with its tracklets and crops, or a part of its procedures.

    Attributes:
        data: The whole data set.
        settings: The settings of the preparation.
        key: Content key of data and settings.
        folder: The folder prepared/SETTINGS in the data folder.
        keys: Key of each procedure's crops, see `crops_keys`.
        procedures: The procedures of this part.
        detections: All detections, sorted so that each tracklet is one run.
        tracklets: Tracklets of this part of at least `min_length` boxes: the columns of
            `build_tracklets`, then crop_first (row in the procedure's crops), n_crops, position
            (of the first frame in the procedure's annotated span, 0 to 1) and bridged (share of
            frames without a box).
        uncut: The tracklets before they were cut at broken frames.
        spans: Annotated spans of all detections.
    """

    __repr__ = short_repr

    data: DataSet
    settings: PrepareSettings
    key: str
    folder: Path
    keys: Mapping[str, str] = field(repr=False)
    procedures: tuple[str, ...] = field(repr=False)
    detections: pl.DataFrame = field(repr=False)
    tracklets: pl.DataFrame = field(repr=False)
    uncut: pl.DataFrame = field(repr=False)
    spans: Spans = field(repr=False)

    def stem(self, procedure_id: str) -> str:
        """Name, without suffix, of the files of a procedure."""
        return f"{file_name(procedure_id)}-{self.keys[procedure_id]}"

    def crops_path(self, procedure_id: str) -> Path:
        """The file of a procedure's crops."""
        return crops_path(self.folder, procedure_id, self.keys[procedure_id])

    def crops(self, procedure_id: str) -> Pixels:
        """The procedure's crops, memory-mapped, read-only: (crops, size, size, 3) uint8, RGB.

        Raises:
            PolyplinkError: If they were not made, or the file is broken or of other tracklets.
        """
        path = self.crops_path(procedure_id)
        hint = "run `polyplink prepare`"
        try:
            pixels = read_crops(path, hint)
        except FileNotFoundError:
            raise PolyplinkError(
                f"no crops of procedure {procedure_id!r} in {self.folder}", hint
            ) from None
        shape = (self._n_crops.get(procedure_id, 0), self.settings.size)
        if pixels.shape[:2] != shape:
            raise PolyplinkError(
                f"{path} holds {len(pixels)} crops of {pixels.shape[1]} pixels, not {shape[0]} of "
                f"{shape[1]}",
                hint,
            )
        return pixels

    def has_crops(self, procedure_id: str) -> bool:
        """Whether the procedure's crops exist, with the number and size that its tracklets need.

        Raises:
            OSError: If the file cannot be read.
        """
        try:
            self.crops(procedure_id)
        except PolyplinkError:
            return False
        return True

    @cached_property
    def _n_crops(self) -> dict[str, int]:
        """Number of crops of each procedure with crops, including those of broken frames."""
        return dict(self.uncut.group_by("procedure_id").agg(pl.col("n_crops").sum()).iter_rows())

    def broken(self) -> dict[str, list[BrokenFrame]]:
        """Procedure -> its broken frames, for procedures that have any."""
        broken = {name: read_broken(self.crops_path(name)) for name in self.procedures}
        return {name: frames for name, frames in broken.items() if frames}

    def select(self, procedures: Sequence[str]) -> "Prepared":
        """A part with some procedures; their tracklets keep their order.

        Raises:
            PolyplinkError: If a name is not a procedure of this part.
        """
        unknown = sorted(set(procedures) - set(self.procedures))
        if unknown:
            choices = ", ".join(self.procedures[:5]) or "none"
            raise PolyplinkError(f"no procedure {unknown[0]!r}", f"choose among: {choices} ...")
        is_selected = pl.col("procedure_id").is_in(list(procedures))
        rows, uncut = self.tracklets.filter(is_selected), self.uncut.filter(is_selected)
        return dataclasses.replace(self, procedures=tuple(procedures), tracklets=rows, uncut=uncut)

    def fragments(self, length: int = 8) -> pl.DataFrame:
        """Fragments of `length` crops of this part's tracklets (see `sampling.fragments`)."""
        return fragments(
            self.tracklets,
            self.spans,
            self.detections["frame"].to_numpy(),
            stride=self.settings.stride,
            length=length,
        )


def lost_boxes(prepared: Prepared) -> dict[str, int]:
    """Number of boxes of a part that are in no tracklet, by the setting that leaves them out.

    Returns:
        `min_length` (of a known polyp, also because `max_gap` and `min_iou` make tracklets
        shorter), `min_seconds` (tracks too short), `low` (scores too low), and `boxes`, the total.

    Example:
        >>> lost_boxes(prepared)  # doctest: +SKIP
        {'boxes': 812, 'min_length': 0, 'min_seconds': 96, 'low': 12}
    """
    table = prepared.detections
    lost = np.ones(table.height, np.bool_)
    lost[box_rows(prepared.tracklets)[0]] = False
    boxes = table.select("procedure_id", "polyp_id", "score", lost=pl.Series(lost)).filter(
        pl.col("procedure_id").is_in(prepared.procedures)
    )
    lost_rows = boxes.filter("lost")
    has_polyp = pl.col("polyp_id").is_not_null()
    weak = ~has_polyp & (pl.col("score") < prepared.settings.tracks.low).fill_null(False)
    counts = lost_rows.select(
        min_length=has_polyp.sum(), min_seconds=(~has_polyp & ~weak).sum(), low=weak.sum()
    ).row(0, named=True)
    return {"boxes": boxes.height, **counts}


def prepared_folder(folder: Path, settings: PrepareSettings) -> Path:
    """The folder in a data folder for tracklets and crops under some settings."""
    return folder / PREPARED / content_key("prepare", FORMAT, settings)


@contextmanager
def storing_in(folder: Path) -> Iterator[None]:
    """Name the way out if tracklets, crops or vectors cannot be stored in a data folder.

    Raises:
        PolyplinkError: If the system refuses to write there, as where folders are shared.
    """
    try:
        yield
    except OSError as error:
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        place, stored = Path(error.filename or ""), folder / PREPARED
        if not refused or stored not in (place, *place.parents):
            raise
        raise PolyplinkError(
            f"{folder} is read-only, and tracklets, crops and vectors are stored in it",
            f"use a folder of your own: `polyplink merge NEW {folder}` copies the tables only",
        ) from None


def crops_keys(folder: Path, data: DataSet, settings: PrepareSettings) -> dict[str, str]:
    """Procedure -> key of its crops, which hashes its key in the data set, scenes and settings."""
    scenes = read_scenes(folder)
    rule = content_key("crops", FORMAT, settings)
    scene_rows = {name: scenes[name].tolist() if name in scenes else None for name in data.keys}
    return {name: content_key(rule, key, scene_rows[name]) for name, key in data.keys.items()}


def crops_path(prepared: Path, procedure_id: str, key: str) -> Path:
    """The file of a procedure's crops; names that are not valid file names are quoted."""
    return prepared / "crops" / f"{file_name(procedure_id)}-{key}.npy"


def prepare(
    folder: Path,
    settings: PrepareSettings | None = None,
    *,
    procedures: str | Sequence[str] | None = None,
    with_crops: bool = True,
    strict: bool = False,
    workers: int | None = None,
    device: str = "cpu",
    progress: StageProgress = silent_stage,
) -> Prepared:
    """Build the tracklets and crops of a data folder, in its folder prepared/SETTINGS.

    The tables cover the whole data set; crops are cut procedure by procedure, and their files are
    written atomically. A later call adds missing crops, and returns at once if none are missing.
    Concurrent processes share the procedures. A frame that cannot be decoded is listed, and its
    tracklet is cut there (see `cut_tracklets`). Crops that are older than their pictures are cut
    again, see `remove_outdated`.

    Args:
        folder: A data folder (see `polyplink.data.tables.read_data`).
        settings: Settings of tracklets and crops; None for the defaults.
        procedures: Procedures to crop and to return, or the name of a part; None for all.
        with_crops: Whether to cut crops; tables alone need no images.
        strict: Whether to raise an error for a frame that cannot be decoded, also if an earlier run
            listed it.
        workers: Threads, or processes that render; None for one per core.
        device: Device that renders the crops of a simulated set without stored frames.
        progress: Callback (crops written, including earlier runs, and crops in all).

    Raises:
        PolyplinkError: If the folder is not a data folder, a procedure is unknown, an image is
            missing or of another size, no image of a procedure can be decoded, the folder is
            read-only, the disk is full, or, if `strict`, one image cannot be decoded.
    """
    settings = settings or PrepareSettings()
    if workers is not None and workers < 1:
        raise PolyplinkError(f"{workers} workers cannot cut crops", "give --workers 1 or more")
    data = read_data(folder)
    if procedures is None or isinstance(procedures, str):
        names = data.part(procedures)
    else:
        names = list(procedures)
    target = prepared_folder(folder, settings)
    record = RunRecord("prepare", settings=settings, inputs={"data": data.key})
    with storing_in(folder):
        prepared = cut_at_broken(_tables(folder, data, settings, record).select(names))
        if with_crops:
            remove_outdated(prepared, folder)
            if not all(map(prepared.has_crops, names)):
                with record.stage("crops"):
                    prepared = add_crops(
                        prepared,
                        folder,
                        strict=strict,
                        workers=workers,
                        device=device,
                        progress=progress,
                    )
        if record.seconds or not (target / "run.json").is_file():
            record.write(target)
    if strict:
        for name, frames in prepared.broken().items():
            refuse_broken(frames[0], prepared.crops_path(name))
    return prepared


def add_crops(
    prepared: Prepared,
    folder: Path,
    *,
    strict: bool = False,
    workers: int | None = None,
    device: str = "cpu",
    progress: StageProgress = silent_stage,
) -> Prepared:
    """Cut the missing crops of a part; arguments and errors are those of `prepare`.

    Returns:
        The part, with tracklets cut at broken frames.
    """
    rows = {row["procedure_id"]: row for row in prepared.data.procedures.iter_rows(named=True)}
    size, workers = prepared.settings.size, workers or os.cpu_count() or 1
    processes = workers if device == "cpu" else 1  # only this process uses a GPU
    total = int(prepared.uncut["n_crops"].sum())
    n_done = 0

    def tick(crops: int) -> None:
        nonlocal n_done
        n_done += crops
        progress(n_done, total)

    for missing in until_done(prepared.procedures, prepared.has_crops):
        n_done = total - int(prepared.select(missing).uncut["n_crops"].sum())
        renderings = []
        for procedure_id in missing:
            part, row = prepared.select([procedure_id]), rows[procedure_id]
            path, source = prepared.crops_path(procedure_id), folder / row["source"]
            frames = frame_crops(part, row)
            lost = next((frame for frame in frames if frame.image is None), None)
            if all(frame.image is None for frame in frames) and crop_source(source) is not None:
                render = partial(
                    render_crops,
                    path,
                    frames,
                    source,
                    size,
                    procedure_id=procedure_id,
                    device=device,
                )
                renderings.append((sum(part.uncut["n_crops"]), partial(_render, part, render)))
                continue
            with _must_make_crops(part) as is_missing:
                if not is_missing:
                    continue
                copied = copy_saved_crops(folder, procedure_id, frames, path, size)
                if copied is not None:
                    tick(copied)
                elif lost is None:
                    write_crops(
                        path, frames, source, size, workers=workers, tick=tick, strict=strict
                    )
                else:
                    raise PolyplinkError(
                        f"procedure {procedure_id!r}, frame {lost.frame}: no image",
                        "import the data with its images or recording (`run --recording`); "
                        "`polyplink prepare --no-crops` gives tracklets alone",
                    )
        longest_first = [render for _, render in sorted(renderings, key=lambda item: -item[0])]
        with closing(as_done(operator.call, longest_first, processes)) as rendered:
            for crops in rendered:
                tick(crops)
    return cut_at_broken(prepared)


def remove_outdated(prepared: Prepared, folder: Path) -> None:
    """Remove crops and vectors that are older than the pictures of their procedure.

    Keys hash tables and settings, but not pictures. Of a procedure, the times of `PICTURES_DATED`
    files at most are compared, evenly spaced: where all were replaced, as by those of another
    export, this is noticed; where a few were, or by older files, it may not be.
    """
    images = prepared.detections.filter(
        pl.col("procedure_id").is_in(prepared.procedures) & pl.col("image").is_not_null()
    )
    spaced = pl.int_range(PICTURES_DATED) * pl.len() // PICTURES_DATED
    images_of = images.group_by("procedure_id").agg(pl.col("image").gather(spaced))
    source_of = dict(prepared.data.procedures.select("procedure_id", "source").iter_rows())
    folders = [path for path in (prepared.folder / "vectors").glob("*") if path.is_dir()]
    now = time.time()
    outdated: list[str] = []
    for name, images_of_name in images_of.iter_rows():
        crops = prepared.crops_path(name)
        vectors = [path / f"{prepared.stem(name)}.parquet" for path in folders]
        made = {path: path.stat().st_mtime for path in (crops, *vectors) if path.is_file()}
        if not made:
            continue
        files = {folder / source_of[name] / image_place(image).file for image in images_of_name}
        newest = max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)
        # The pictures of a clock that is ahead would make them again each time.
        older = [path for path, at in made.items() if at < newest <= now]
        for path in older:
            path.unlink(missing_ok=True)
            if path == crops:
                broken_path(crops).unlink(missing_ok=True)
        if older:
            outdated.append(name)
    if outdated:
        warn(
            f"crops or vectors of {many(len(outdated), 'procedure')} ({first_names(outdated)}) are "
            "older than their pictures, and are made again where they are needed"
        )


def _must_make_crops(part: Prepared) -> AbstractContextManager[bool]:
    """Whether this process is to make the crops of a part with one procedure."""
    (procedure_id,) = part.procedures
    return claim_unmade(part.crops_path(procedure_id), partial(part.has_crops, procedure_id))


def _render(part: Prepared, render: Callable[[], int]) -> int:
    """Render the crops of a procedure in a worker, if they are to be made; returns their number."""
    with _must_make_crops(part) as is_missing:
        return render() if is_missing else 0


def frame_crops(part: Prepared, procedure: dict[str, Any]) -> list[FrameCrops]:
    """The crops of each frame of one procedure, including those of broken frames.

    Args:
        part: A part with this procedure only.
        procedure: The procedure's row of the table of procedures.
    """
    stride, factor = part.settings.stride, part.settings.crop_factor
    counts = part.uncut["n_crops"].to_numpy().astype(np.int64)  # n
    crop = np.arange(counts.sum())  # crops
    within = crop - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(part.uncut["offset"].to_numpy(), counts) + stride * within
    boxes = part.detections[rows]
    width, height = procedure["width"], procedure["height"]
    cuts = enlarge(boxes.select(BOX).to_numpy(), factor, width, height)  # crops 4
    images, frames = boxes["image"].to_list(), boxes["frame"].to_list()
    groups: dict[str | int, list[int]] = {}
    for row in np.argsort(boxes["frame"].to_numpy(), kind="stable").tolist():
        image = images[row]
        groups.setdefault(frames[row] if image is None else image, []).append(row)
    return [
        FrameCrops(
            images[members[0]], frames[members[0]], width, height, np.array(members), cuts[members]
        )
        for members in groups.values()
    ]


_TABLES = ("detections", "tracklets")
_DATA = "data"  # entry in the tables' metadata: the key of their data set


def _tables(folder: Path, data: DataSet, settings: PrepareSettings, record: RunRecord) -> Prepared:
    """Read or build the tables of a whole data set, without cutting tracklets at broken frames."""
    target = prepared_folder(folder, settings)
    scenes = read_scenes(folder)
    scene_keys = [{name: rows.tolist()} for name, rows in scenes.items()]
    key = content_key("prepare", FORMAT, data.key, settings, *scene_keys)
    while (tables := _stored_tables(target, key)) is None:
        with file_claim(target / "tracklets.parquet") as is_claimed, record.stage("tracklets"):
            if not is_claimed:
                time.sleep(PAUSE)  # another process makes them
            elif _stored_tables(target, key, warn=True) is None:
                fps = frame_rates(data.procedures)
                detections, tracklets = build_tracklets(
                    data.detections, settings, fps=fps, scenes=scenes
                )
                tracklets = add_positions(
                    sample_crops(tracklets, settings, fps), spans_of(detections)
                )
                for name, table in zip(_TABLES, (detections, tracklets), strict=True):
                    write_table(target / f"{name}.parquet", table, {_DATA: key})
    detections, tracklets = tables
    return Prepared(
        data=data,
        settings=settings,
        key=key,
        folder=target,
        keys=crops_keys(folder, data, settings),
        procedures=tuple(data.part(None)),
        detections=detections,
        tracklets=tracklets,
        uncut=tracklets,
        spans=spans_of(detections),
    )


def _stored_tables(target: Path, key: str, *, warn: bool = False) -> list[pl.DataFrame] | None:
    """Detections and tracklets; None if a table is missing, damaged, or of another data set."""
    tables = []
    for name in _TABLES:
        path = target / f"{name}.parquet"
        try:
            table, marks = read_table_with_metadata(path, "prepare again")
        except FileNotFoundError:
            return None
        except PolyplinkError:
            if warn:
                warn_remade(path)
            return None
        if marks.get(_DATA) != key:
            return None
        tables.append(table)
    return tables


def cut_at_broken(prepared: Prepared) -> Prepared:
    """A part with its tracklets cut at the known broken frames."""
    broken = prepared.broken()
    tracklets = prepared.uncut
    if broken:
        tracklets = cut_tracklets(
            tracklets,
            prepared.detections["frame"],
            broken,
            stride=prepared.settings.stride,
            min_length=prepared.settings.min_length,
        )
        tracklets = add_positions(tracklets, prepared.spans)
    return dataclasses.replace(prepared, tracklets=tracklets)


def typical_crops(prepared: Prepared, count: int) -> npt.NDArray[np.uint8]:
    """At most `count` crops (n, size, size, 3) uint8, evenly spaced over those of the tracklets.

    The black crops of broken frames are not among them.

    Raises:
        PolyplinkError: If the part has no crops.
    """
    table = prepared.tracklets
    total = int(table["n_crops"].sum())
    if total == 0:
        raise PolyplinkError(
            f"no tracklets with crops in {prepared.folder.parent.parent}",
            "`polyplink doctor` lists options that give some",
        )
    numbers = np.unique(np.linspace(0, total - 1, min(count, total)).astype(np.int64))
    n_crops = table["n_crops"].to_numpy().astype(np.int64)
    ends = np.cumsum(n_crops)
    tracklets = np.searchsorted(ends, numbers, side="right")
    within = numbers - (ends - n_crops)[tracklets]
    rows = table["crop_first"].to_numpy()[tracklets] + within
    procedures = table["procedure_id"].to_list()
    arrays = {name: prepared.crops(name) for name in dict.fromkeys(procedures)}
    return np.stack([arrays[procedures[k]][row] for k, row in zip(tracklets, rows, strict=True)])
