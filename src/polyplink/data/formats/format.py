"""What a format of data sets is: how it is read, how it is written, and what is lost in writing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from polyplink.data.tables import DataSet, Imported

RELEASED = ("images", "scores", "splits", "patients")
"""What no layout of a released set holds, of `conversion.LOSSES`."""
ONE_A_VIDEO = (*RELEASED, "unnamed boxes", "several polyps", "fps", "brand and preparation")
"""What those with one polyp a video do not hold."""


@dataclass(frozen=True)
class Format:
    """How data sets of a format are read and written.

    Attributes:
        read: Its importer: (source, images, strict, workers, progress, and options of its own).
        write: Called with the data set and the folder; None if data sets are not written in it.
        loses: Keys of `conversion.LOSSES`: what is lost in writing.
        mark: Gives one file again with the track and polyp of its boxes (see `formats.marks`); None
            where boxes come back as a table.
    """

    read: Callable[..., Imported]
    write: Callable[[DataSet, Path], None] | None = None
    loses: Sequence[str] = ()
    mark: Callable[..., dict[str, bytes]] | None = None
