"""A format of data sets: its reader, its writer, and what is lost in writing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from polyplink.data.tables import DataSet, Imported

RELEASED = ("images", "scores", "splits", "dates")
"""Keys of `conversion.LOSSES` that are lost in every layout of a released data set."""
ONE_A_VIDEO = (*RELEASED, "unnamed boxes", "several polyps", "fps", "preparation")
"""Keys that are lost in layouts with one polyp per video."""


@dataclass(frozen=True)
class Format:
    """The functions of a format.

    Attributes:
        read: The importer: (source, images, strict, workers, progress, and options of the format).
        write: Writes a data set into a folder; None if the format can only be read.
        loses: Keys of `conversion.LOSSES` that are lost in writing.
        mark: Returns one file with the track and polyp of its boxes (see `formats.marks`); None if
            boxes are returned as a table.
    """

    read: Callable[..., Imported]
    write: Callable[[DataSet, Path], None] | None = None
    loses: Sequence[str] = ()
    mark: Callable[..., dict[str, bytes]] | None = None
