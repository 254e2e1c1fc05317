"""A format of data sets: its functions, what is lost in writing, and the options of all readers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import polars as pl

from polyplink.core.results import StageProgress, silent_stage
from polyplink.data.faults import Faults
from polyplink.data.tables import DataSet, Imported

RELEASED = ("images", "scores", "splits", "dates")
"""Keys of `conversion.LOSSES` that are lost in every layout of a released data set."""
ONE_A_VIDEO = (*RELEASED, "unnamed boxes", "several polyps", "fps", "preparation")
"""Keys that are lost in layouts with one polyp per video."""
SEPARATE = {"tracks": "track_id", "polyps": "polyp"}
"""Folder -> column, for formats in which a box has one number: each number gets a file."""


class ImportOptions(TypedDict, total=False):
    """Keyword arguments that the importers of all formats take; their defaults are in `Import`.

    Attributes:
        images: Set the image of each box if the file exists.
        strict: Raise at the first fault instead of leaving it out and counting it.
        progress: Callback after every procedure, file or chunk of files with the number read and
            the total.
        workers: Number of processes that read files (more than one require an importable main
            module). CSV and the released data sets except REAL-Colon are read by one.
    """

    images: bool
    strict: bool
    progress: StageProgress
    workers: int


@dataclass(frozen=True, kw_only=True)
class Import:
    """An import while it runs: its options (see `ImportOptions`) and its faults."""

    images: bool = True
    strict: bool = False
    progress: StageProgress = silent_stage
    workers: int = 1

    @cached_property
    def faults(self) -> Faults:
        """The faults so far; extended by all functions of the import."""
        return Faults(self.strict)


@dataclass(frozen=True)
class Format:
    """The functions of a format.

    Attributes:
        read: The importer: (source, images, strict, workers, progress, and options of the format).
        write: Writes a data set into a folder; None if the format can only be read.
        loses: Keys of `conversion.LOSSES` that are lost in writing.
        mark: Returns one file of a source with the track and polyp of its boxes, as a mapping of
            folders ("" if both numbers are in one file) to bytes; None if boxes are returned as a
            table. Its arguments are the path, `marks`, and the options of `Places`. `marks` has the
            columns item (the number of a box in the file, as in the importer), track_id and polyp
            (whole numbers, null for none).
        archives: Whether the importer also reads a source that is a zip or tar archive.
    """

    read: Callable[..., Imported]
    write: Callable[[DataSet, Path], None] | None = None
    loses: Sequence[str] = ()
    mark: Callable[..., dict[str, bytes]] | None = None
    archives: bool = True


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
