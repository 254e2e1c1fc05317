"""What every importer gives back."""

from dataclasses import dataclass

from polyplink.data.tables import DataSet


@dataclass(frozen=True)
class Imported:
    """A data set as it was read, and one line for each kind of thing that was odd in it.

    Attributes:
        data: The data set.
        warnings: From `Faults.lines`: what was left out or is odd, how often, and the first name.
    """

    data: DataSet
    warnings: list[str]
