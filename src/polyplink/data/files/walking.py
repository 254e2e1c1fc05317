"""Folders looked through without passing over those that may not be read, as glob does."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from polyplink.core.errors import PolyplinkError


def refuse(error: OSError) -> NoReturn:
    """Raise what the system says of a folder; what `os.walk` takes as `onerror`."""
    raise PolyplinkError(f"{error.filename}: {error.strerror}", "check its permissions") from None


def files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, in the order of their paths' parts; links are not followed.

    Raises:
        PolyplinkError: If a folder may not be read.
    """
    for place, below, names in os.walk(folder, onerror=refuse):
        below.sort()
        yield from (Path(place) / name for name in sorted(names))


def files_in(folder: Path, ending: str) -> list[Path]:
    """Files of a folder that have an ending, hidden ones left out, in the order of their names.

    Raises:
        PolyplinkError: If the folder may not be read.
    """
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except OSError as error:
        refuse(error)
    return [folder / name for name in names if name.endswith(ending) and name[0] != "."]
