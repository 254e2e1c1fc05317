"""The table of the SUN database's cases, as a CSV file that the user makes.

The site (sundatabase.org) lists shape, size, location and pathology of every case on a page and
not as a file, and its terms forbid to hand the data on, so the table is not shipped here. Columns,
in any order: `case` (7 or case7), and any of `patient`, `shape` (Is, IIa, ...), `size` (`5mm`,
`15mm-` for 15 mm or more), `location` and `pathology`, both in words or in the abbreviations
C A T D S R and LA HA HP SSL TSA IC.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.formats.text import read_text_table
from polyplink.data.vocabulary import normalise_location

COLUMNS = ("case", "patient", "shape", "size", "location", "pathology")

# Abbreviations as GewelsJI/VPS lists them, docs/INFO_POSITIVE_CASES.md.
LOCATIONS: Mapping[str, str] = {
    "c": "cecum",
    "a": "ascending",
    "t": "transverse",
    "d": "descending",
    "s": "sigma",
    "r": "rectum",
}
# Word or abbreviation, in lower case -> class of the papers' adenoma map (`ADENOMA["sun"]`).
CLASSES: Mapping[str, str] = {
    "la": "Low-grade adenoma",
    "low-grade adenoma": "Low-grade adenoma",
    "ha": "High-grade adenoma",
    "high-grade adenoma": "High-grade adenoma",
    "hp": "Hyperplastic polyp",
    "hyperplastic polyp": "Hyperplastic polyp",
    "ssl": "SSL",
    "sessile serrated lesion": "SSL",
    "tsa": "TSA",
    "traditional serrated adenoma": "TSA",
    "ic": "Invasive cancer (T1b)",
    "invasive cancer (t1b)": "Invasive cancer (T1b)",
}

_CASE = re.compile(r"(?:case\s*)?0*(\d+)", re.I)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:mm)?\s*(-?)", re.I)


@dataclass(frozen=True)
class SunCase:
    """What the table says of one case; None where it says nothing."""

    patient: str | None = None
    shape: str | None = None
    size_mm: float | None = None
    location: str | None = None
    pathology: str | None = None
    histology_class: str | None = None


def read_cases(path: Path, faults: Faults) -> dict[int, SunCase]:
    """Read the table of cases.

    Args:
        path: The CSV file.
        faults: Told of rows, sizes and pathologies that cannot be read, of sizes that are a lower
            bound, and of unknown columns.

    Returns:
        Case number -> its row.

    Raises:
        PolyplinkError: If the file is missing or no table, or has no column `case`; if strict, at
            the first value that cannot be read.
    """
    table = read_text_table(path)
    table = table.rename({name: name.lower() for name in table.columns})
    if "case" not in table.columns:
        raise PolyplinkError(f"{path} has no column 'case'", f"its columns: {', '.join(COLUMNS)}")
    for name in table.columns:
        if name not in COLUMNS:
            faults.warn("column of the table of cases that is not known, not read", name)
    cases: dict[int, SunCase] = {}
    for row in table.iter_rows(named=True):
        words = {name: (row.get(name) or "").strip() or None for name in COLUMNS}
        match = _CASE.fullmatch(words["case"] or "")
        where = f"{path.name}, case {words['case']}"
        if match is None:
            faults.fault("row of no case", where, "write the case's number")
        elif int(match[1]) in cases:
            faults.fault("second row of a case", where, "remove one of them")
        else:
            cases[int(match[1])] = _case(words, where, faults)
    return cases


def _case(words: Mapping[str, str | None], where: str, faults: Faults) -> SunCase:
    location, pathology = words["location"], words["pathology"]
    if location is not None:
        location = LOCATIONS.get(location.lower(), location)
        location = normalise_location(pl.Series([location]))[0]
    kind = CLASSES.get((pathology or "").lower())
    if pathology is not None and kind is None:
        faults.fault("pathology of no known class", f"{where} ({pathology})", "use a site's word")
    return SunCase(
        words["patient"], words["shape"], _size(words["size"], where, faults), location,
        pathology, kind,
    )  # fmt: skip


def _size(text: str | None, where: str, faults: Faults) -> float | None:
    match = _SIZE.fullmatch(text or "")
    if text is None or match is None:
        if text is not None:
            faults.fault("size that is no number", f"{where} ({text})", "write it as 5mm")
        return None
    if match[2]:
        faults.warn("size that is a lower bound, taken as the number", f"{where} ({text})")
    return float(match[1])
