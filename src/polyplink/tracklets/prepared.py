"""A prepared data set: its tracklets, and their crops as arrays on disk."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import numpy as np
import polars as pl

from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, SHARE, check_ranges
from polyplink.data.tables import DataSet
from polyplink.tracklets.crops import Broken, Pixels, read_broken
from polyplink.tracklets.fragments import Spans, fragments, procedure_positions, spans_of

FORMAT = 1  # of the folder; a new one makes new keys


@dataclass(frozen=True)
class PrepareSettings:
    """How tracklets and crops are made; the defaults are those of the NTSSL paper.

    Attributes:
        min_length: Boxes a tracklet must have to be kept.
        stride: Boxes from one crop of a tracklet to the next.
        max_gap: Largest step in frames within a tracklet.
        min_iou: Smallest IoU of neighbouring boxes of a tracklet.
        crop_factor: psi, times the box's width and height; None for the full frame.
        size: Width and height of a crop, pixels.
    """

    min_length: Annotated[int, AT_LEAST_ONE] = 30
    stride: Annotated[int, AT_LEAST_ONE] = 4
    max_gap: Annotated[int, AT_LEAST_ONE] = 1
    min_iou: Annotated[float, SHARE] = 0.1
    crop_factor: Annotated[float | None, POSITIVE] = 5.0
    size: Annotated[int, AT_LEAST_ONE] = 232

    def __post_init__(self) -> None:
        check_ranges("", self)
        # 5 and 5.0 are one setting, and must be one key.
        object.__setattr__(self, "min_iou", float(self.min_iou))
        if self.crop_factor is not None:
            object.__setattr__(self, "crop_factor", float(self.crop_factor))


@dataclass(frozen=True)
class Prepared:
    """A data set with its tracklets and crops, or a part of its procedures.

    Attributes:
        data: The data set, whole.
        settings: How it was prepared.
        key: Content key of data and settings.
        folder: Where it lies: the data folder's prepared/key.
        procedures: The procedures of this part.
        detections: All detections, sorted so that each tracklet is one run.
        tracklets: Tracklets of this part of at least `min_length` boxes: the columns of
            `build_tracklets`, then crop_first (row in the procedure's crops), n_crops and
            position (first frame in the procedure's annotated span, 0 to 1).
        spans: Annotated spans, over all detections.
    """

    data: DataSet
    settings: PrepareSettings
    key: str
    folder: Path
    procedures: tuple[str, ...]
    detections: pl.DataFrame
    tracklets: pl.DataFrame
    spans: Spans

    def crops(self, procedure_id: str) -> Pixels:
        """The procedure's crops, memory-mapped, read-only: (crops, size, size, 3) uint8, RGB.

        Raises:
            PolyplinkError: If they were not made, or the file was cut short.
        """
        path = crops_path(self.folder, procedure_id)
        try:
            crops: Pixels = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise PolyplinkError(
                f"no crops of procedure {procedure_id!r} in {self.folder}",
                "run `polyplink prepare`",
            ) from None
        except (ValueError, EOFError) as error:
            raise PolyplinkError(
                f"{path} cannot be read ({first_line(error)})",
                "remove it and run `polyplink prepare`",
            ) from None
        return crops

    def broken(self) -> dict[str, list[Broken]]:
        """Procedure -> its broken frames, for procedures that have any."""
        found = {name: read_broken(crops_path(self.folder, name)) for name in self.procedures}
        return {name: frames for name, frames in found.items() if frames}

    def part(self, name: str | None) -> "Prepared":
        """A part of the data set by its name in splits.json ("train", ...); None for all of it.

        Raises:
            PolyplinkError: If there is no such part.
        """
        return self.select(self.data.part(name))

    def select(self, procedures: Sequence[str]) -> "Prepared":
        """Some procedures; their tracklets keep their order and count their rows from 0.

        Raises:
            PolyplinkError: If one is not among this part's procedures.
        """
        check_procedures(procedures, self.procedures)
        rows = self.tracklets.filter(pl.col("procedure_id").is_in(list(procedures)))
        return dataclasses.replace(self, procedures=tuple(procedures), tracklets=rows)

    def fragments(self, length: int = 8, *, pad: bool = False) -> pl.DataFrame:
        """Fragments of `length` crops of this part's tracklets (see `fragments.fragments`)."""
        return fragments(
            self.tracklets,
            self.spans,
            self.detections["frame"].to_numpy(),
            stride=self.settings.stride,
            length=length,
            pad=pad,
        )


def check_procedures(wanted: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a name that is no procedure.

    Raises:
        PolyplinkError: Naming it and some of those there are.
    """
    strange = sorted(set(wanted) - set(known))
    if strange:
        have = ", ".join(list(known)[:5]) or "none"
        raise PolyplinkError(f"no procedure {strange[0]!r}", f"choose among: {have} ...")


def prepared_folder(folder: Path, data: DataSet, settings: PrepareSettings) -> Path:
    """Where a data folder keeps what is prepared of it under these settings."""
    return folder / "prepared" / content_key("prepare", FORMAT, data.key, settings)


def crops_path(prepared: Path, procedure_id: str) -> Path:
    """The file of a procedure's crops; a name that no file can have is quoted."""
    return prepared / "crops" / f"{quote(procedure_id, safe=' ')}.npy"


def load_prepared(target: Path, data: DataSet, settings: PrepareSettings) -> Prepared:
    """Read the tables in `target`, the folder that `prepared_folder` names.

    Raises:
        PolyplinkError: If they cannot be read.
    """
    tables = {}
    for name in ("detections", "tracklets"):
        path = target / f"{name}.parquet"
        try:
            tables[name] = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise PolyplinkError(
                f"{path} cannot be read ({first_line(error)})",
                f"remove {target} and run `polyplink prepare`",
            ) from None
    prepared = Prepared(
        data=data,
        settings=settings,
        key=target.name,
        folder=target,
        procedures=tuple(data.part(None)),
        detections=tables["detections"],
        tracklets=tables["tracklets"],
        spans=spans_of(tables["detections"]),
    )
    broken = prepared.broken()
    if not broken:
        return prepared
    tracklets = cut_tracklets(
        prepared.tracklets,
        prepared.detections["frame"],
        broken,
        stride=settings.stride,
        min_length=settings.min_length,
    )
    tracklets = tracklets.with_columns(procedure_positions(tracklets, prepared.spans))
    return dataclasses.replace(prepared, tracklets=tracklets)


def cut_tracklets(
    tracklets: pl.DataFrame,
    frames: pl.Series,
    broken: Mapping[str, Sequence[Broken]],
    *,
    stride: int,
    min_length: int,
) -> pl.DataFrame:
    """Cut tracklets at broken frames.

    A part begins at a crop and ends before the broken one, so that the other crops keep their
    rows; boxes between a broken crop and the next are lost. Only frames that should have been
    cropped can be known to be broken.

    Args:
        tracklets: From `prepare.sampled`.
        frames: Frame number of each detection, in the order that `offset` counts in.
        broken: Procedure -> its broken frames.
        stride: Boxes from one crop to the next.
        min_length: Boxes that a part must have to be kept.

    Returns:
        The same table; the parts after the first are named `ID.1`, `ID.2`, ...
    """
    bad = {procedure: {row.frame for row in rows} for procedure, rows in broken.items() if rows}
    if not bad:
        return tracklets
    rows: list[dict[str, object]] = []
    for row in tracklets.iter_rows(named=True):
        offset, n = row["offset"], row["n"]
        mine = bad.get(row["procedure_id"], set())
        shown = frames[offset : offset + n : stride].to_list() if mine else []
        cuts = [k for k, frame in enumerate(shown) if frame in mine]
        if not cuts:
            rows.append(row)
            continue
        edges = [-1, *cuts, row["n_crops"]]
        for number, (before, after) in enumerate(pairwise(edges)):
            start, stop = (before + 1) * stride, min(after * stride, n)
            if stop - start < max(min_length, 1):
                continue
            rows.append(
                row
                | {
                    "tracklet_id": row["tracklet_id"] + (f".{number}" if number else ""),
                    "first_frame": frames[offset + start],
                    "last_frame": frames[offset + stop - 1],
                    "n": stop - start,
                    "offset": offset + start,
                    "crop_first": row["crop_first"] + before + 1,
                    "n_crops": after - before - 1,
                }
            )
    return pl.DataFrame(rows, schema=tracklets.schema)
