"""The label table of Polyp-Size: one row a video, from an .xlsx or a CSV file.

Source: Song et al., Scientific Data 2025, 12:918; columns Video_ID, Polyp_Size ("11.74mm"),
Paris_Classification, Age, Gender, Endoscope_Model as users of it read them. The pathology is
there under a name that is not confirmed: the column whose header holds `path` or `hist` is taken.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.trees import decode_text
from polyplink.data.files.xlsx import read_xlsx
from polyplink.data.vocabulary import ADENOMA

VIDEO = re.compile(
    r"(?:video)?[ _-]?0*(\d{1,6})(?:\.0)?(?:\.\w*[a-z]\w*)?", re.I
)  # 01, Video01.mp4

# Header, in lower case and with `_` for blanks -> our column. The first that matches is taken.
_COLUMNS: Mapping[str, re.Pattern[str]] = {
    "video": re.compile(r"video(_?(id|name|number|no))?|id"),
    "size": re.compile(r"(polyp_)?size.*"),
    "shape": re.compile(r"paris.*"),
    "age": re.compile(r"(patient_)?age.*"),
    "sex": re.compile(r"gender|sex"),
    "model": re.compile(r"endoscope.*"),
    "pathology": re.compile(r".*(path|hist).*"),
}
_CLASSES = {word.lower(): word for word in ADENOMA["polyp-size"]}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:mm)?", re.I)


@dataclass(frozen=True)
class VideoLabel:
    """What the table says of one video; None where it says nothing."""

    size_mm: float | None = None
    shape: str | None = None
    age: int | None = None
    sex: str | None = None
    model: str | None = None
    pathology: str | None = None
    histology_class: str | None = None


def read_rows(data: bytes, name: str) -> list[list[str]]:
    """The rows of a table, texts without blanks around them; empty rows are left away.

    Raises:
        PolyplinkError: If it is neither a whole .xlsx file nor text.
    """
    if name.lower().endswith(".xlsx"):
        rows = read_xlsx(data, name)
    else:
        text = decode_text(data, name)
        separator = max(",;\t", key=text.partition("\n")[0].count)
        rows = list(csv.reader(StringIO(text, newline=""), delimiter=separator))
    stripped = [[cell.strip() for cell in row] for row in rows]
    return [row for row in stripped if any(row)]


def is_label_table(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows begin with a header that names videos and sizes."""
    return bool(rows) and {"video", "size"} <= set(_columns(rows[0]))


def _columns(header: Sequence[str]) -> dict[str, int]:
    names = [re.sub(r"\W+", "_", text.lower()).strip("_") for text in header]
    return {
        ours: next(i for i, name in enumerate(names) if pattern.fullmatch(name))
        for ours, pattern in _COLUMNS.items()
        if any(pattern.fullmatch(name) for name in names)
    }


def parse_labels(rows: Sequence[Sequence[str]], name: str, faults: Faults) -> dict[int, VideoLabel]:
    """Read the rows of a label table.

    Args:
        rows: Header and rows, from `read_rows`.
        name: The file's name, for messages.
        faults: Told of columns that are missing and of values that cannot be read.

    Returns:
        Video number -> its label.

    Raises:
        PolyplinkError: If no column names the videos; if strict, at the first value that cannot
            be read.
    """
    columns = _columns(rows[0]) if rows else {}
    if "video" not in columns:
        raise PolyplinkError(f"{name} has no column Video_ID", "take the table as released")
    for ours in _COLUMNS:
        if ours not in columns:
            faults.warn("column of the label table that is missing, its values null", ours)
    labels: dict[int, VideoLabel] = {}
    for row in rows[1:]:
        words = {ours: row[i] if i < len(row) else "" for ours, i in columns.items()}
        match = VIDEO.fullmatch(words["video"])
        where = f"{name}, video {words['video']}"
        if match is None:
            faults.fault("row of no video", where, "write the video's number")
        elif int(match[1]) in labels:
            faults.fault("second row of a video", where, "remove one of them")
        else:
            labels[int(match[1])] = _label(words, where, faults)
    return labels


def _label(words: Mapping[str, str], where: str, faults: Faults) -> VideoLabel:
    pathology = words.get("pathology") or None
    kind = _CLASSES.get((pathology or "").lower())
    if pathology is not None and kind is None:
        faults.warn("pathology of no known class, histology class null", f"{where} ({pathology})")
    size = _SIZE.fullmatch(words.get("size", ""))
    if size is None and words.get("size"):
        faults.fault("size that is no number", f"{where} ({words['size']})", "write it as 4.5mm")
    age = re.fullmatch(r"(\d{1,3})(?:\.0+)?", words.get("age", ""))
    if age is None and words.get("age"):
        faults.fault("age that is no number", f"{where} ({words['age']})", "write whole years")
    return VideoLabel(
        size_mm=float(size[1]) if size else None,
        shape=words.get("shape") or None,
        age=int(age[1]) if age else None,
        sex=words.get("sex") or None,
        model=words.get("model") or None,
        pathology=pathology,
        histology_class=kind,
    )
