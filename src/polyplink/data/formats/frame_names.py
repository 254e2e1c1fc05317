"""Procedure and frame number out of a file's name, by three rules and no guess.

`<folder>/<number>`, `<folder>/frame_<number>` (also `image`, `img`): the folder is the procedure.
`<procedure>_<number>`, `<procedure>_frame<number>`: what stands before the number is.
Zero padding and a `.0` behind the number do not matter. Anything else has no frame number.
"""

import polars as pl

PARTS = ("train", "val", "valid", "test")  # folders that name a part, not a procedure

_WORD = r"(?:frame|image|img)?[_-]?"
_NUMBER = r"0*(\d{1,10})(?:\.0+)?$"
_ENDING = r"\.[A-Za-z][A-Za-z0-9]{1,4}$"
_ALONE = rf"(?i)^{_WORD}{_NUMBER}"
_NAMED = rf"(?i)^(.+?)_{_WORD}{_NUMBER}"


def name_frames(names: pl.Series) -> pl.DataFrame:
    """Read procedure and frame number from file names.

    Args:
        names: Text, n file names with `/` between folders, relative to the folder of all; a
            first folder called train, val, valid or test is a part and never the procedure.

    Returns:
        n rows: procedure_id, frame (Int64, as written) and part; null where a name has none.
    """
    folder = pl.col("folder").str.replace(rf"^({'|'.join(PARTS)})(/|$)", "")
    stem = pl.col("stem")
    alone = stem.str.extract(_ALONE)
    table = pl.DataFrame({"name": names}).select(
        folder=pl.col("name").str.extract(r"^(.*)/[^/]*$").fill_null(""),
        stem=pl.col("name").str.extract(r"([^/]*)$").str.replace(_ENDING, ""),
    )
    return table.select(
        procedure_id=pl.when(alone.is_not_null())
        .then(pl.when(folder != "").then(folder))
        .otherwise(stem.str.extract(_NAMED)),
        frame=pl.coalesce(alone, stem.str.extract(_NAMED, 2)).cast(pl.Int64),
        part=pl.col("folder").str.extract(rf"^({'|'.join(PARTS)})(?:/|$)"),
    )
