"""Which detector the boxes of a data folder are from: `detector.json` beside the tables.

Boxes of annotators have no such file. What was calibrated on one kind of boxes says nothing about
another kind, so that a count must know which kind it is made of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import ValidationError

from polyplink.core.artefacts import from_plain, read_json, write_json
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import SIMULATED, STILLS

FILE = "detector.json"
ANNOTATED = "annotated"  # the key of boxes that people drew
UNKNOWN = "unknown"  # the key of a detector that is not named anywhere
Material = Literal["recordings", "simulated procedures", "stills in motion", "mixed"]


@dataclass(frozen=True)
class BoxesOrigin:
    """The detector that made the boxes of a data folder.

    Attributes:
        key: Digest of the detector; of a simulated one its name.
        name: Its name, for people.
        high: Score from which a box begins a track; None if the detector's record does not say.
        low: Score from which a box continues one; None as for `high`.
        min_seconds: Seconds that a track must last; None as for `high`.
        sha256: SHA-256 of the detector's file; None where it has none.
    """

    key: str
    name: str
    high: float | None = None
    low: float | None = None
    min_seconds: float | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class BoxSource:
    """Where boxes come from: who drew them, and on what.

    Attributes:
        boxes: "annotated"; the key of the detector; "unknown" for boxes with scores of a detector
            that is not named.
        detector: The detector's name, for people; None for annotated boxes.
        material: What was looked at; "mixed" where it is of several kinds.
    """

    boxes: str
    detector: str | None
    material: Material


def material_of(datasets: Sequence[str]) -> Material:
    """What data sets of these names hold.

    Example:
        >>> material_of(["real-colon"]), material_of(["simulated tiny 7", "sun"])
        ('recordings', 'mixed')
    """
    kinds: set[Material] = {
        "simulated procedures"
        if name.startswith(SIMULATED)
        else "stills in motion"
        if name.startswith(STILLS)
        else "recordings"
        for name in datasets
    }
    return kinds.pop() if len(kinds) == 1 else "mixed"


def box_source(folder: Path, data: DataSet, procedures: Sequence[str]) -> BoxSource:
    """Where the boxes of procedures of a data folder come from.

    Boxes that no detector is recorded for are annotated, unless one has a score and no polyp.

    Args:
        folder: The data folder.
        data: What it holds.
        procedures: Ids of procedures, one or more.

    Raises:
        PolyplinkError: If its record of the detector is broken.
    """
    rows = data.procedures.filter(pl.col("procedure_id").is_in(list(procedures)))
    material = material_of(rows["dataset"].unique().to_list())
    origin = read_origin(folder)
    if origin is not None:
        return BoxSource(origin.key, origin.name, material)
    boxes = data.detections.filter(pl.col("procedure_id").is_in(list(procedures)))
    if boxes.filter(pl.col("score").is_not_null() & pl.col("polyp_id").is_null()).is_empty():
        return BoxSource(ANNOTATED, None, material)
    return BoxSource(UNKNOWN, "a detector that is not named", material)


def annotated_boxes(folder: Path, data: DataSet) -> pl.DataFrame:
    """The boxes that people drew: of a polyp, or without a score where no detector is recorded.

    Raises:
        PolyplinkError: If the record of the detector is broken.
    """
    drawn = pl.col("polyp_id").is_not_null()
    if read_origin(folder) is None:
        drawn |= pl.col("score").is_null()
    return data.detections.filter(drawn)


def write_origin(folder: Path, origin: BoxesOrigin | None) -> None:
    """Write which detector the boxes of a data folder are from; None where it is none."""
    if origin is None:
        (folder / FILE).unlink(missing_ok=True)
    else:
        write_json(folder / FILE, origin)


def read_origin(folder: Path) -> BoxesOrigin | None:
    """Which detector the boxes of a data folder are from; None for annotated or imported boxes.

    Raises:
        PolyplinkError: If the file is broken.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return from_plain(BoxesOrigin, read_json(path))
    except ValidationError as error:
        raise PolyplinkError(
            f"{path} was not written by polyplink ({first_line(error)})",
            "run `polyplink detect` again",
        ) from None
