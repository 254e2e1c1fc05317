"""Which detector the boxes of a data folder are from: `detector.json` beside the tables.

Boxes of annotators have no such file. What was calibrated on one kind of boxes says nothing about
another kind, so that a count must know which kind it is made of.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError, first_line

FILE = "detector.json"


@dataclass(frozen=True)
class BoxesOrigin:
    """The detector that made the boxes of a data folder.

    Attributes:
        key: Digest of the detector; of a simulated one its name.
        name: Its name, for people.
        high: Score from which a box begins a track; None if the detector's record does not say.
        low: Score from which a box continues one; None likewise.
        min_seconds: Seconds that a track must last; None likewise.
    """

    key: str
    name: str
    high: float | None = None
    low: float | None = None
    min_seconds: float | None = None


def write_origin(folder: Path, origin: BoxesOrigin) -> None:
    """Write which detector the boxes of a data folder are from."""
    write_json(folder / FILE, origin)


def read_origin(folder: Path) -> BoxesOrigin | None:
    """Which detector the boxes of a data folder are from; None for annotated or imported boxes.

    Raises:
        PolyplinkError: If the file is broken.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return TypeAdapter(BoxesOrigin).validate_python(read_json(path))
    except ValidationError as error:
        raise PolyplinkError(
            f"{path} is not of polyplink ({first_line(error)})", "run `polyplink detect` again"
        ) from None
