"""The detector behind the boxes of a data folder, and warnings of their import or detection.

Annotated boxes have no `detector.json`. A calibration on boxes of one source does not hold for
another, so a count must know the source of its boxes. `warnings.json` has the warnings of the
import or detection, which every count of the folder carries.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

import polars as pl
from pydantic import ValidationError

from polyplink.core.artefacts import (
    ADDED_LATER,
    from_plain,
    read_json,
    read_plain,
    to_plain,
    write_json,
)
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.tables import WARNINGS_FILE, DataSet
from polyplink.data.vocabulary import STILLS, is_simulated

FILE = "detector.json"
ANNOTATED = "annotated"  # the key of boxes that people drew
UNKNOWN = "unknown"  # the key of a detector that is not recorded
Material = Literal["recordings", "simulated procedures", "stills in motion", "mixed"]


@dataclass(frozen=True)
class BoxesOrigin:
    """The detector that made the boxes of a data folder.

    Attributes:
        key: Digest of the detector; the name of a simulated one.
        name: Name for display.
        high: Lowest score of a box that begins a track; None if the detector's record has none.
        low: Lowest score of a box that continues a track; None as for `high`.
        min_seconds: Seconds that a track must last; None as for `high`.
        nested: Largest share of a box in a track within that of another; None as for `high`.
        sha256: SHA-256 of the detector's file; None for a detector without a file.
        made_with: Name of the shipped detector that it is or was trained from; None for others.
    """

    key: str
    name: str
    high: float | None = None
    low: float | None = None
    min_seconds: float | None = None
    sha256: str | None = None
    nested: float | None = field(default=None, metadata=ADDED_LATER)
    made_with: str | None = field(default=None, metadata=ADDED_LATER)


@dataclass(frozen=True)
class BoxSource:
    """The source of boxes: annotators or a detector, and the kind of images.

    Attributes:
        boxes: "annotated"; the key of the detector; "unknown" for boxes with scores of a detector
            that is not recorded.
        detector: Name of the detector for display; None for annotated boxes.
        material: Kind of images; "mixed" for several kinds.
        fps: Lowest rate of the frames that the detector saw, frames per second; None if that of a
            procedure is unknown, and in weights and counts of earlier versions.
    """

    boxes: str
    detector: str | None
    material: Material
    fps: float | None = field(default=None, kw_only=True, metadata=ADDED_LATER)


def material_of(datasets: Sequence[str]) -> Material:
    """The kind of images in data sets with these names.

    Example:
        >>> material_of(["real-colon"]), material_of(["simulated tiny 7", "sun"])
        ('recordings', 'mixed')
    """
    kinds = set[Material]()
    for name in datasets:
        if is_simulated(name):
            kinds.add("simulated procedures")
        elif name.startswith(STILLS):
            kinds.add("stills in motion")
        else:
            kinds.add("recordings")
    return kinds.pop() if len(kinds) == 1 else "mixed"


def box_source(folder: Path, data: DataSet, procedures: Sequence[str]) -> BoxSource:
    """The source of the boxes of some procedures of a data folder.

    Without a recorded detector, boxes are annotated unless one of them has a score but no polyp.

    Args:
        folder: The data folder.
        data: Its data set.
        procedures: Ids of procedures, one or more.

    Raises:
        PolyplinkError: If the record of the detector is broken.
    """
    rows = data.procedures.filter(pl.col("procedure_id").is_in(list(procedures)))
    material = material_of(rows["dataset"].unique().to_list())
    lowest = cast("float | None", rows["fps"].min())
    # `live` drops frames that come too fast.
    late = _largest_share(line for line in read_warnings(folder) if line.kind == "live.late")
    fps = None if lowest is None or rows["fps"].has_nulls() else lowest * (1 - late)
    origin = read_origin(folder)
    if origin is not None:
        return BoxSource(origin.key, origin.name, material, fps=fps)
    boxes = data.detections.filter(pl.col("procedure_id").is_in(list(procedures)))
    if boxes.filter(pl.col("score").is_not_null() & pl.col("polyp_id").is_null()).is_empty():
        return BoxSource(ANNOTATED, None, material, fps=fps)
    return BoxSource(UNKNOWN, "a detector that is not named", material, fps=fps)


def share_not_decoded(folder: Path, procedures: Sequence[str]) -> float:
    """Largest share of the frames of a procedure that did not decode when it was detected."""
    return _largest_share(
        line
        for line in read_warnings(folder)
        if line.kind == "not_decoded" and line.values["name"] in procedures
    )


def _largest_share(warnings: Iterable[Message]) -> float:
    """Largest share of frames that warnings name, `n` of `frames`; 0 without a warning."""
    numbers = [cast("Mapping[str, int]", line.values) for line in warnings]
    return max((values["n"] / values["frames"] for values in numbers), default=0.0)


def annotated_boxes(folder: Path, data: DataSet) -> pl.DataFrame:
    """The annotated boxes: those with a polyp or, if no detector is recorded, without a score.

    Raises:
        PolyplinkError: If the record of the detector is broken.
    """
    annotated = pl.col("polyp_id").is_not_null()
    if read_origin(folder) is None:
        annotated |= pl.col("score").is_null()
    return data.detections.filter(annotated)


def write_origin(folder: Path, origin: BoxesOrigin | None) -> None:
    """Write the detector behind the boxes of a data folder; None removes the record."""
    if origin is None:
        (folder / FILE).unlink(missing_ok=True)
    else:
        write_json(folder / FILE, origin)


def read_origin(folder: Path) -> BoxesOrigin | None:
    """Read the detector behind the boxes of a data folder; None if none is recorded.

    Raises:
        PolyplinkError: If the file is broken.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    problem, hint = f"{path} was not written by polyplink", "run `polyplink detect` again"
    return read_plain(BoxesOrigin, read_json(path), problem, hint)


def write_warnings(folder: Path, warnings: Sequence[Message]) -> None:
    """Write the warnings of the import or detection of a data folder, with their English text."""
    write_json(folder / WARNINGS_FILE, [{"text": str(line)} | to_plain(line) for line in warnings])


def read_warnings(folder: Path) -> list[Message]:
    """The warnings of the import or detection of a data folder.

    Earlier versions wrote the lines of an import in English, which are shown verbatim.

    Raises:
        PolyplinkError: If the file is broken.
    """
    path = folder / WARNINGS_FILE
    if not path.is_file():
        return []
    try:
        warnings = [
            Message("boxes_read", {"line": line})
            if isinstance(line, str)
            else from_plain(Message, {name: line[name] for name in ("kind", "values")})
            for line in read_json(path, "import or detect again")
        ]
        for warning in warnings:
            warning.text()  # fails if a kind or a value of it is unknown
    except (KeyError, TypeError, ValidationError):
        raise PolyplinkError(
            f"{path} holds no warnings of an import or detection", "import or detect again"
        ) from None
    return warnings
