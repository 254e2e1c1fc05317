"""The two tables of a REAL-Colon release: `video_info.csv` and `lesion_info.csv`.

Source: Biffi et al., Scientific Data 2024, 11:539. Their quirks are mended on the way in: the
site `trasnverse`, caecum beside cecum; lesions are counted in `lesion_info.csv`.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.tables import POLYPS, PROCEDURES, Column, Schema, check
from polyplink.data.vocabulary import normalise_location

_LESIONS = Column(pl.Int32(), True, "number of lesions")

# Column as released -> our name and meaning.
_VIDEO_COLUMNS: Mapping[str, tuple[str, Column]] = {
    "unique_video_name": ("procedure_id", PROCEDURES["procedure_id"]),
    "age": ("age", PROCEDURES["age"]),
    "sex": ("sex", PROCEDURES["sex"]),
    "endoscope_brand": ("brand", PROCEDURES["brand"]),
    "fps": ("fps", PROCEDURES["fps"]),
    "num_frames": ("n_frames", PROCEDURES["n_frames"]),
    "num_lesions": ("num_lesions", _LESIONS),
    "bbps": ("bbps", PROCEDURES["bbps"]),
}
_LESION_COLUMNS: Mapping[str, tuple[str, Column]] = {
    "unique_object_id": ("polyp_id", POLYPS["polyp_id"]),
    "unique_video_name": ("procedure_id", POLYPS["procedure_id"]),
    "size [mm]": ("size_mm", POLYPS["size_mm"]),
    "site": ("location", POLYPS["location"]),
    "histology_extended": ("histology", POLYPS["histology"]),
    "histology_class": ("histology_class", POLYPS["histology_class"]),
}


def read_video_info(path: Path) -> pl.DataFrame:
    """Read `video_info.csv`.

    Args:
        path: The file.

    Returns:
        One row for each procedure in the file's order: procedure_id, age, sex, brand, fps,
        n_frames, num_lesions (as the file claims), bbps.

    Raises:
        PolyplinkError: If the file or a column is missing, or a value cannot be read.
    """
    return _read(path, _VIDEO_COLUMNS)


def read_lesion_info(path: Path) -> pl.DataFrame:
    """Read `lesion_info.csv`; sites are normalised.

    Args:
        path: The file.

    Returns:
        One row for each lesion in the file's order: polyp_id, procedure_id, size_mm, location,
        histology (free text), histology_class.

    Raises:
        PolyplinkError: If the file or a column is missing, or a value cannot be read.
    """
    lesions = _read(path, _LESION_COLUMNS)
    return lesions.with_columns(normalise_location(lesions["location"]))


def _read(path: Path, columns: Mapping[str, tuple[str, Column]]) -> pl.DataFrame:
    if not path.is_file():
        raise PolyplinkError(f"{path} is missing", "download it from the release of REAL-Colon")
    try:
        # As text: a type that is guessed turns a name such as 001 into a number.
        table = pl.read_csv(path, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise PolyplinkError(
            f"{path} is not a table ({first_line(error)})", "download it again"
        ) from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise PolyplinkError(
            f"{path} has no column {missing[0]!r}", "take the file as released, header included"
        )
    schema: Schema = {name: column for name, (_, column) in columns.items()}
    names = {name: ours for name, (ours, _) in columns.items()}
    return check(table, schema, path.name).rename(names)
