"""The formats of data sets: what reads each, what writes it, and what it cannot hold.

A format cannot represent all contents of a data set. What is lost is counted from the tables
and returned as warnings; a data set that a format cannot express at all is refused by its writer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.plugins import find_part
from polyplink.data.files.video import is_video
from polyplink.data.formats.assemble import PARTS
from polyplink.data.formats.coco import import_coco, mark_coco, write_coco
from polyplink.data.formats.csv import import_csv, mark_csv, write_csv
from polyplink.data.formats.cvat import import_cvat, write_cvat
from polyplink.data.formats.masks import import_masks
from polyplink.data.formats.mot import import_mot, mark_mot, write_mot
from polyplink.data.formats.yolo import import_yolo, mark_yolo, write_yolo
from polyplink.data.sets.ldpolyp import import_ldpolyp, write_ldpolyp
from polyplink.data.sets.polyp_size import import_polyp_size, write_polyp_size
from polyplink.data.sets.polypsset import import_polypsset, write_polypsset
from polyplink.data.sets.real_colon import import_real_colon, write_real_colon
from polyplink.data.sets.sun import import_sun, write_sun
from polyplink.data.tables import DataSet, Imported

RECORDINGS = ("video", "videos", "images", "frames", "recording")  # mistaken for formats
_RELEASED = ("images", "scores", "splits", "patients")
_ONE_A_VIDEO = (*_RELEASED, "unnamed boxes", "several polyps", "fps", "brand and preparation")


@dataclass(frozen=True)
class Format:
    """How data sets of a format are read and written.

    Attributes:
        read: Its importer: (source, images, strict, workers, progress, and options of its own).
        write: Called with the data set and the folder; None if data sets are not written in it.
        loses: Keys of `LOSSES`: what is lost in writing.
        mark: Gives one file again with the track and polyp of its boxes (see `formats.marks`); None
            where boxes come back as a table.
    """

    read: Callable[..., Imported]
    write: Callable[[DataSet, Path], None] | None = None
    loses: Sequence[str] = ()
    mark: Callable[..., dict[str, bytes]] | None = None


FORMATS: Mapping[str, Format] = {
    "real-colon": Format(import_real_colon, write_real_colon, (*_RELEASED, "morphology")),
    "ldpolyp": Format(
        import_ldpolyp, write_ldpolyp, (*_ONE_A_VIDEO, "sizes", "histology", "morphology")
    ),
    "sun": Format(import_sun, write_sun, _ONE_A_VIDEO),
    "polypsset": Format(import_polypsset, write_polypsset, (*_ONE_A_VIDEO, "sizes", "morphology")),
    "polyp-size": Format(import_polyp_size, write_polyp_size, (*_ONE_A_VIDEO, "locations")),
    "coco": Format(import_coco, write_coco, ("images", "empty polyps"), mark_coco),
    "mot": Format(import_mot, write_mot, ("images", "splits"), mark_mot),
    "yolo": Format(import_yolo, write_yolo, ("images", "other splits"), mark_yolo),
    "cvat": Format(import_cvat, write_cvat, ("images", "splits")),
    "csv": Format(import_csv, write_csv, ("splits",), mark_csv),
    "masks": Format(import_masks),
}


def find_importer(name: str) -> Callable[..., Imported]:
    """The importer of a format, or of a plugin.

    Raises:
        PolyplinkError: If there is none.
    """
    PolyplinkError.unless(
        name not in RECORDINGS and not is_video(name),
        f"{name!r} is no format of boxes",
        "boxes in a recording are detected, not imported: `polyplink run RECORDING`, or "
        "`polyplink detect RECORDING DATA --detector FILE.onnx`",
    )
    return find_part("importer", name, {name: entry.read for name, entry in FORMATS.items()})


def _rows(table: str, lost: pl.Expr) -> Callable[[DataSet], int]:
    return lambda data: getattr(data, table).filter(lost).height


def _known(table: str, *columns: str) -> Callable[[DataSet], int]:
    return _rows(table, pl.any_horizontal(pl.col(columns).is_not_null()))


_MANY, _OTHER = pl.col("procedure_id").is_duplicated(), pl.col("patient") != pl.col("procedure_id")

# What may be lost, and how often it occurs in a data set.
LOSSES: Mapping[str, tuple[str, Callable[[DataSet], int]]] = {
    "images": ("box whose image is not written", _known("detections", "image")),
    "scores": ("box whose score is not written", _known("detections", "score")),
    "unnamed boxes": (
        "box of no known polyp, which may be read as a polyp",
        _rows("detections", pl.col("polyp_id").is_null()),
    ),
    "splits": ("part of the split that is not written", lambda d: len(d.splits)),
    "other splits": (
        "part of the split that is not train, val or test, not written",
        lambda d: len(set(d.splits) - set(PARTS)),
    ),
    "patients": ("procedure whose patient is not written", _rows("procedures", _OTHER)),
    "fps": ("procedure whose frame rate is not written", _known("procedures", "fps")),
    "brand and preparation": (
        "procedure whose age, sex, brand, preparation or date is not written",
        _known("procedures", "age", "sex", "brand", "bbps", "date"),
    ),
    "empty polyps": (
        "polyp without a box, not written",
        lambda d: d.polyps.join(d.detections, on="polyp_id", how="anti").height,
    ),
    "several polyps": (
        "polyp whose procedure has others, read as one with them",
        _rows("polyps", _MANY),
    ),
    "sizes": ("polyp whose size is not written", _known("polyps", "size_mm")),
    "histology": (
        "polyp whose histology is not written",
        _known("polyps", "histology", "histology_class"),
    ),
    "locations": ("polyp whose location is not written", _known("polyps", "location")),
    "morphology": ("polyp whose Paris class is not written", _known("polyps", "morphology")),
}


def convert(data: DataSet, name: str, root: Path) -> list[str]:
    """Write a data set in another format; the importer of the same name reads it.

    Images stay where they are. Facts that a general format has no field for go into
    `procedures.csv` and `polyps.csv` beside it.

    Args:
        data: The data set.
        name: Of a format that can be written: coco, mot, yolo, cvat, csv, or the layout of a
            released set, real-colon, sun, ldpolyp, polypsset or polyp-size.
        root: Folder to write into; created if absent.

    Returns:
        One warning for each kind of thing that the format has no place for.

    Raises:
        PolyplinkError: If there is no such format, or it cannot express the data set: a released
            layout needs its own names of procedures, most of them boxes of whole pixels.

    Example:
        >>> import tempfile
        >>> from polyplink.data import import_mot
        >>> frame = {"procedure_id": "p", "frame": 0, "x": 1, "y": 2, "w": 9, "h": 9}
        >>> row = {"procedure_id": "p", "dataset": "mine", "patient": "p", "n_frames": 1}
        >>> row |= {"width": 64, "height": 48, "source": "."}
        >>> polyps = pl.DataFrame(schema={"polyp_id": str, "procedure_id": str})
        >>> data = DataSet.of(pl.DataFrame([frame]), pl.DataFrame([row]), polyps, {"test": ["p"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(convert(data, "mot", Path(folder)))
        ...     print(import_mot(Path(folder)).data.key == data.key)
        ['1 x part of the split that is not written']
        True
    """
    written = {name: (entry.write, entry.loses) for name, entry in FORMATS.items() if entry.write}
    write, loses = find_named("format", name, written)
    write(data, root)
    lost = [(what, count(data)) for what, count in (LOSSES[key] for key in loses)]
    return [f"{n} x {what}" for what, n in lost if n]
