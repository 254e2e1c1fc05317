"""Convert data sets to other formats, and report what a format cannot represent.

Losses are counted from the tables and returned as warnings; the writer of a format refuses a data
set that it cannot represent at all.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import FORMATS
from polyplink.data.files.folders import is_video
from polyplink.data.formats.format import Format
from polyplink.data.formats.frame_names import PARTS
from polyplink.data.tables import DataSet

# Often typed as a format.
NAMES_OF_RECORDINGS = ("video", "videos", "images", "frames", "recording")


def find_format(name: str) -> Format:
    """A format by name: built in, or of a package, which may provide only an importer.

    Raises:
        PolyplinkError: If no format has the name, or that of a package is none.
    """
    is_recording = name in NAMES_OF_RECORDINGS or is_video(name)
    if is_recording and name not in FORMATS.installed():
        raise PolyplinkError(
            f"{name!r} is not a format of boxes",
            "boxes in a recording are detected, not imported: `polyplink run RECORDING`, or "
            "`polyplink detect RECORDING DATA --detector FILE.onnx`",
        )
    part = FORMATS.find(name)
    if isinstance(part, Format):
        return part
    if not callable(part):
        raise PolyplinkError(
            f"format {name!r} is neither a function nor a polyplink.data.formats.format.Format",
            "the how-to on adding parts describes the kind format",
        )
    return Format(part)


def find_written(name: str) -> Format:
    """A format by name that data sets can be written in.

    Raises:
        PolyplinkError: If no format has the name, it can only be read, or what it says to lose is
            not in `LOSSES`.
    """
    form = find_format(name)
    if form.write is None:
        writers = ", ".join(name for name, known_form in FORMATS.items() if known_form.write)
        raise PolyplinkError(
            f"format {name!r} can be read but not written", f"choose one of: {writers}"
        )
    unknown = [key for key in form.loses if key not in LOSSES]
    if unknown:
        raise PolyplinkError(
            f"`loses` of format {name!r} has {unknown[0]!r}", f"choose of: {', '.join(LOSSES)}"
        )
    return form


def _count_rows(table: str, lost: pl.Expr) -> Callable[[DataSet], int]:
    """A function that counts the rows of a table of a data set for which something is lost."""
    return lambda data: getattr(data, table).filter(lost).height


def _count_known(table: str, *columns: str) -> Callable[[DataSet], int]:
    """A function that counts the rows with a value in any of some columns."""
    return _count_rows(table, pl.any_horizontal(pl.col(columns).is_not_null()))


def _count_cut_short(data: DataSet) -> int:
    """The number of procedures with frames after their last box."""
    ends = data.detections.group_by("procedure_id").agg(end=pl.col("frame").max() + 1)
    ends = ends.join(data.procedures.select("procedure_id", "n_frames"), on="procedure_id")
    return ends.filter(pl.col("n_frames") > pl.col("end")).height


def _count_refitted(data: DataSet) -> int:
    """The number of boxes that an import in whole pixels, clamped to the frame, changes."""
    sizes = data.procedures.select("procedure_id", "width", "height")
    boxes = data.detections.join(sizes, on="procedure_id").cast({pl.Float32: pl.Float64})
    x, y, right, bottom = (
        pl.col("x"),
        pl.col("y"),
        pl.col("x") + pl.col("w"),
        pl.col("y") + pl.col("h"),
    )
    is_changed = pl.any_horizontal(edge != edge.round() for edge in (x, y, right, bottom))
    is_changed |= (x < 0) | (y < 0) | (right >= pl.col("width")) | (bottom >= pl.col("height"))
    return boxes.filter(is_changed).height


_BESIDE_ANOTHER = pl.col("procedure_id").is_duplicated()  # a polyp in a procedure of several
_HAS_PATIENT = pl.col("patient") != pl.col("procedure_id")

# Possible losses: description, and the number of occurrences in a data set.
LOSSES: Mapping[str, tuple[str, Callable[[DataSet], int]]] = {
    "images": ("box written without its image", _count_known("detections", "image")),
    "scores": ("box written without its score", _count_known("detections", "score")),
    "unnamed boxes": (
        "box of no known polyp, which may be read as a polyp",
        _count_rows("detections", pl.col("polyp_id").is_null()),
    ),
    "blanks of polyps": (
        "box with blanks around its polyp id, which is read without them",
        _count_rows("detections", pl.col("polyp_id").str.strip_chars() != pl.col("polyp_id")),
    ),
    "sides": (
        "box that is read in whole pixels, up to the last pixel of the frame",
        _count_refitted,
    ),
    "splits": ("part of the split that is not written", lambda d: len(d.splits)),
    "other splits": (
        "part of the split that is not train, val or test, not written",
        lambda d: len(set(d.splits) - set(PARTS)),
    ),
    "patients": ("procedure written without its patient", _count_rows("procedures", _HAS_PATIENT)),
    "fps": ("procedure written without its frame rate", _count_known("procedures", "fps")),
    "age, sex and brand": (
        "procedure written without its age, sex or brand",
        _count_known("procedures", "age", "sex", "brand"),
    ),
    "preparation": (
        "procedure written without its bowel preparation",
        _count_known("procedures", "bbps"),
    ),
    "dates": ("procedure written without its date", _count_known("procedures", "date")),
    "frame sizes": (
        "procedure written without the size of its frames",
        lambda d: d.procedures.height,
    ),
    "frames after the last box": (
        "procedure written without the frames after its last box",
        _count_cut_short,
    ),
    "empty procedures": (
        "procedure without a box, not written",
        lambda d: d.procedures.join(d.detections, on="procedure_id", how="anti").height,
    ),
    "parts of empty procedures": (
        "procedure without a box, which is read in no part",
        lambda d: len(
            {name for part in PARTS for name in d.splits.get(part, ())}
            - {*d.detections["procedure_id"]}
        ),
    ),
    "empty polyps": (
        "polyp without a box, not written",
        lambda d: d.polyps.join(d.detections, on="polyp_id", how="anti").height,
    ),
    "several polyps": (
        "polyp read as one with the others of its procedure",
        _count_rows("polyps", _BESIDE_ANOTHER),
    ),
    "sizes": ("polyp written without its size", _count_known("polyps", "size_mm")),
    "histology": (
        "polyp written without its histology",
        _count_known("polyps", "histology", "histology_class"),
    ),
    "locations": ("polyp written without its location", _count_known("polyps", "location")),
    "morphology": ("polyp written without its Paris class", _count_known("polyps", "morphology")),
}


def convert(data: DataSet, name: str, root: Path) -> list[str]:
    """Write a data set in another format; the importer of the same name reads it.

    Images are not copied. Facts for which a general format has no field are written into
    `procedures.csv` and `polyps.csv` next to it.

    Args:
        data: The data set.
        name: Name of a format that can be written.
        root: Folder to write into; created if absent.

    Returns:
        One warning for each kind of information that the format cannot hold.

    Raises:
        PolyplinkError: If there is no such format, or it cannot represent the data set: a released
            layout requires its scheme of procedure names, and most layouts whole-pixel boxes.

    Example:
        >>> import tempfile
        >>> from polyplink.data.formats.mot import import_mot
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
    form = find_written(name)
    assert form.write is not None
    form.write(data, root)
    warnings = []
    for key in form.loses:
        description, count = LOSSES[key]
        n = count(data)
        if n:
            warnings.append(f"{n} x {description}")
    return warnings
