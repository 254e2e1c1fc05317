"""A small set in the files of every format, and the importers of the formats."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from polyplink.data.conversion import convert
from polyplink.data.formats.yolo import import_yolo
from polyplink.data.sets.polyp_size import import_polyp_size
from polyplink.data.tables import Imported
from tests.data.packing import files_of, pack
from tests.data.public_sets import SETS, write_set
from tests.data.sample_sets import BOX_IMPORTERS, HEIGHT, WIDTH, scored_set

Read = Callable[[Path], Imported]

READERS: Mapping[str, Read] = {
    **{name: public.read for name, public in SETS.items()},
    "polyp-size": import_polyp_size,  # without boxes.csv, which may lose a row silently
    **BOX_IMPORTERS,
    "yolo": partial(import_yolo, size=(WIDTH, HEIGHT)),
}
"""Format -> its importer, with all arguments except the folder."""


@cache
def files_in(name: str) -> dict[str, bytes]:
    """The files of a small set in a format; REAL-Colon without images."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if name in SETS:
            data = SETS[name].small()
            if name == "real-colon":
                SETS[name].write(data, folder)
            else:
                write_set(name, data, folder)
        else:
            convert(scored_set(), name, folder)
        return files_of(folder)


def write_format(name: str, folder: Path) -> Path:
    """Write the files of a small set in a format into a folder."""
    return pack(folder, files_in(name))
