"""Procedure, frame number and part in the names of files."""

from pathlib import Path

import polars as pl

from polyplink.core.messages import Message
from polyplink.data.faults import Faults

PARTS = ("train", "val", "valid", "test")  # folders that are parts, not procedures
PART = rf"^({'|'.join(PARTS)})(?:/|$)"

_WORD = r"(?:frame|image|img)?[_-]?"
_NUMBER = r"0*([0-9]{1,10})(?:\.0+)?$"  # \d would match digits of other scripts
_ENDING = r"\.[A-Za-z][A-Za-z0-9]{1,4}$"
# What Roboflow appends to a name (`case7_12_jpg.rf.0a1b2c`), and Label Studio puts before it.
_ROBOFLOW = r"(?i)[._](?:jpe?g|png|bmp|tiff?|webp)\.rf\.[0-9a-z]+$"
_LABEL_STUDIO = r"^([0-9a-f]{8})-."
# An image of SUN in the folder of its case, or of a clip of this case (SUN-SEG: case20_3).
SUN_CLIP = r"(?:^|/)case0*([0-9]+)(?:_[0-9]+)?/case_[^/]*_a[0-9]+_[^/]*image_?[0-9]+$"
_ALONE = rf"(?i)^{_WORD}{_NUMBER}"
_NAMED = rf"(?i)^(.+?)_{_WORD}{_NUMBER}"


def name_frames(names: pl.Series) -> pl.DataFrame:
    """Read procedure and frame number from file names.

    In `<folder>/<number>` and `<folder>/frame_<number>` (also `image`, `img`) the folder is the
    procedure; in `<procedure>_<number>` and `<procedure>_frame<number>` the procedure precedes the
    number. If files of several folders would be the same frame of such a procedure, each folder is
    a procedure: named by the folder, or `<folder>/<procedure>` if it has files of several. So are
    the clips of SUN-SEG, because their images continue each other's numbers in several parts. Zero
    padding and `.0` after the number are ignored, as is what Roboflow appends to a name, and the
    code that Label Studio puts before each if all names have one of their own.

    Args:
        names: Text, n file names with `/` between folders, relative to the root folder; a first
            folder called train, val, valid or test is a part and never the procedure.

    Returns:
        n rows: procedure_id, frame (Int64, as written) and part; null if the name has none.

    Example:
        >>> name_frames(pl.Series(["train/case7/frame_012.png", "001-002_5.jpg"])).rows()
        [('case7', 12, 'train'), ('001-002', 5, None)]
        >>> name_frames(pl.Series(["monday/case_1.jpg", "friday/case_1.jpg"])).rows()
        [('monday', 1, None), ('friday', 1, None)]
    """
    stem = pl.col("stem")
    alone = stem.str.extract(_ALONE)
    table = pl.DataFrame({"name": names}).select(
        path=pl.col("name").str.extract(r"^(.*)/[^/]*$").fill_null(""),
        stem=pl.col("name")
        .str.extract(r"([^/]*)$")
        .str.replace(_ENDING, "")
        .str.replace(_ROBOFLOW, ""),
    )
    codes = table["stem"].str.extract(_LABEL_STUDIO)
    of_digits = codes.str.contains(r"^[0-9]+$").all()  # dates, for example
    if codes.len() > 1 and codes.null_count() == 0 and codes.is_unique().all() and not of_digits:
        table = table.with_columns(pl.col("stem").str.slice(9))
    table = table.select(
        folder=pl.col("path").str.replace(PART, ""),
        named=pl.when(alone.is_null()).then(stem.str.extract(_NAMED)),
        frame=pl.coalesce(alone, stem.str.extract(_NAMED, 2)).cast(pl.Int64),
        part=pl.col("path").str.extract(PART),
        is_clip=pl.concat_str("path", "stem", separator="/").str.contains(SUN_CLIP),
    )
    folder, named, frame = pl.col("folder"), pl.col("named"), pl.col("frame")
    is_shared = (folder.n_unique().over("named", "frame") > 1).any().over("named")
    is_shared |= pl.col("is_clip")
    is_alone = named.n_unique().over("folder") == 1
    of_folder = pl.when(is_alone).then(folder).otherwise(folder + "/" + named)
    return table.select(
        procedure_id=pl.when(folder == "")
        .then(named)
        .when(named.is_null() & frame.is_not_null())
        .then(folder)
        .when(named.is_not_null() & is_shared)
        .then(of_folder)
        .otherwise(named),
        frame=frame,
        part="part",
    )


def numbers_alone(frames: pl.DataFrame, source: Path, faults: Faults) -> pl.DataFrame:
    """Assign files named only by a number to one procedure, named as their folder.

    Args:
        frames: Columns at, procedure_id and frame; rows with a procedure or without a number stay.
        source: The folder of the frames.
        faults: Extended by a warning with the name of the procedure.
    """
    place = source.resolve()
    folder = place.parent if place.name in ("labels", "annotations", "images") else place
    alone = pl.col("procedure_id").is_null() & pl.col("frame").is_not_null()
    kind = Message("import.numbered_file", {"procedure": folder.name})
    faults.warn_rows(kind, frames.filter(alone))
    name = pl.when(alone).then(pl.lit(folder.name)).otherwise("procedure_id")
    return frames.with_columns(procedure_id=name)


def only_frames(frames: pl.DataFrame, name: pl.Expr, first: int, faults: Faults) -> pl.DataFrame:
    """Make each file without a procedure and a number the only frame of a procedure of its name.

    Args:
        frames: Columns at, procedure_id and frame.
        name: The name of the procedure; null for a file that stays without one.
        first: Number of the first frame.
        faults: Extended by a warning about these files.
    """
    alone = pl.col("procedure_id").is_null() & pl.col("frame").is_null() & name.is_not_null()
    faults.warn_rows(Message("import.only_frame"), frames.filter(alone))
    return frames.with_columns(
        procedure_id=pl.when(alone).then(name).otherwise("procedure_id"),
        frame=pl.when(alone).then(pl.lit(first)).otherwise("frame"),
    )
