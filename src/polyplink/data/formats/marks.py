"""Files of a source written again, with the track and the polyp of every box.

A function `mark_FORMAT` returns the contents of one file: a mapping of folders ("" if both numbers
are in one file) to bytes. Its argument `marks` is a table with the columns item (the number of a
box in the file, as in the format's importer), track_id and polyp (whole numbers, null for none).
"""

import polars as pl

SEPARATE = {"tracks": "track_id", "polyps": "polyp"}
"""Folder -> column, for formats in which a box has one number: each number gets a file."""


def by_item(marks: pl.DataFrame, n: int) -> pl.DataFrame:
    """track_id and polyp of all n boxes of a file, null for those without a mark.

    Example:
        >>> marks = pl.DataFrame({"item": [2, 0], "track_id": [7, 8], "polyp": [1, None]})
        >>> by_item(marks, 3).rows()
        [(8, None), (None, None), (7, 1)]
    """
    items = pl.DataFrame({"item": pl.int_range(n, dtype=pl.Int64, eager=True)})
    numbers = marks.select(pl.col("item", "track_id", "polyp").cast(pl.Int64))
    return items.join(numbers, on="item", how="left", maintain_order="left").drop("item")
