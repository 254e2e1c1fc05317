"""The per-frame files of a procedure: listed by number, read quickly.

One listing of a folder instead of a look at every file: a release has millions of them.
"""

import os
import re
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import LARGEST

# `.0` is how the release writes the frames of 001-012.
_NUMBER = re.compile(r"_(\d+)(?:\.0+)?\.[A-Za-z]+$")

_READ_BYTES = 1 << 16  # an annotation file is about 1 KiB


def frame_number(name: str) -> int | None:
    """The number in a file's name, `<procedure>_<number>`; None where there is none."""
    number = _NUMBER.search(name)
    return None if number is None else int(number.group(1))


def frame_files(folder: Path, suffix: str) -> dict[int, str]:
    """List the files of a folder by frame number.

    Args:
        folder: The folder; hidden files in it are not looked at.
        suffix: Ending of the files, with its dot.

    Returns:
        Frame number to file name, in the order of the numbers.

    Raises:
        PolyplinkError: If a file has no frame number, or two have the same.
    """
    names: dict[int, str] = {}
    for name in os.listdir(folder):  # noqa: PTH208 - names alone: no path object for each frame
        if not name.endswith(suffix) or name.startswith("."):
            continue
        frame = frame_number(name)
        if frame is None:
            raise PolyplinkError(
                f"{folder / name} has no frame number", "name it <procedure>_<frame>"
            )
        if frame > LARGEST:
            raise PolyplinkError(f"{folder / name} is of frame {frame}", "correct its name")
        if frame in names:
            raise PolyplinkError(
                f"{folder} has two files for frame {frame} ({names[frame]}, {name})",
                "remove one of them",
            )
        names[frame] = name
    return dict(sorted(names.items()))


def read_text(path: str) -> str:
    """Read a small UTF-8 file.

    Args:
        path: The file, as text: a path object for each of millions of files would be felt.

    Returns:
        Its text.

    Raises:
        PolyplinkError: If it cannot be read or is not UTF-8.
    """
    # A bare descriptor takes half the time of a file object; the release has 2.76 million files.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = os.read(descriptor, _READ_BYTES)
        while len(data) % _READ_BYTES == 0 and (more := os.read(descriptor, _READ_BYTES)):
            data += more
    except OSError as error:  # a bare descriptor knows no name
        raise PolyplinkError(f"{path}: {error.strerror}", "unpack the archive again") from None
    finally:
        os.close(descriptor)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise PolyplinkError(f"{path} is not UTF-8 text", "unpack the archive again") from None
