"""Annotations and frames of one REAL-Colon procedure, in a folder or in the archive as released."""

import os
from collections.abc import Iterator
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import INSIDE, ZipArchive
from polyplink.data.files.folders import LARGEST
from polyplink.data.files.tar_stream import tar_members
from polyplink.data.sets.frame_files import frame_files, frame_number, read_text

_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")  # the first is how it is released
_AGAIN = "unpack the archive again"


def place_of(name: str, kinds: tuple[str, ...]) -> str | None:
    """The procedure whose folder or archive goes by a name; None for other names.

    Args:
        name: Of a folder or archive: `001-001_annotations`, `001-001_annotations.tar.gz`.
        kinds: What may stand after the procedure ("annotations", "annotation").
    """
    stem = next((name.removesuffix(end) for end in _ARCHIVES if name.endswith(end)), name)
    procedure_id, _, kind = stem.rpartition("_")
    return procedure_id if kind in kinds and procedure_id and name[0] != "." else None


def frames_place(source: Path, folder: str) -> Path | None:
    """Where a procedure's images are: the folder, else an archive of that name, else nowhere."""
    places = (source / f"{folder}{end}" for end in ("", *_ARCHIVES))
    return next((p for p in places if p.is_dir() or (p.suffix and p.is_file())), None)


def annotation_texts(place: Path) -> Iterator[tuple[int, str, str]]:
    """Read the annotation files of a procedure; an archive in one pass, without unpacking.

    Args:
        place: A folder, or a .tar.gz, .tar or .zip archive whose members lie in a folder or not.

    Yields:
        Frame number, file name and text; of a folder in the order of the numbers, of an archive
        in its own.

    Raises:
        PolyplinkError: If a file has no frame number or two have the same, or the archive is cut
            short or damaged.
    """
    if place.is_dir():
        prefix = f"{place}{os.sep}"
        for frame, name in frame_files(place, ".xml").items():
            yield frame, name, read_text(prefix + name)
        return
    names: dict[int, str] = {}
    for path, data in _members(place):
        name = path.rpartition("/")[2]
        frame = _number(name, place)
        if frame in names:
            raise PolyplinkError(
                f"{place} has two files for frame {frame} ({names[frame]}, {name})", _AGAIN
            )
        names[frame] = name
        yield frame, name, data.decode("utf-8", "replace")


def image_names(place: Path | None, annotations: dict[int, str]) -> dict[int, str]:
    """Images of a procedure, as the column `image` names them.

    Args:
        place: Folder or archive of the frames; None where there is none.
        annotations: Frame number -> name of its annotation file.

    Returns:
        Frame number -> image. A folder is listed. An archive is not, as that would be a pass over
        tens of gigabytes: it is taken to hold an image for every annotation, and `prepare` tells
        where it has none.
    """
    if place is None:
        return {}
    if place.is_dir():
        return {frame: f"{place.name}/{name}" for frame, name in frame_files(place, ".jpg").items()}
    start = f"{place.name}{INSIDE}"
    return {f: f"{start}{name.removesuffix('.xml')}.jpg" for f, name in annotations.items()}


def _wanted(path: str) -> bool:
    return path.endswith(".xml") and not path.rpartition("/")[2].startswith(".")


def _members(place: Path) -> Iterator[tuple[str, bytes]]:
    if not place.name.endswith(".zip"):
        yield from tar_members(place, _wanted)
        return
    archive = ZipArchive(place)
    yield from archive.read([name for name in archive.names() if _wanted(name)], None)


def _number(name: str, place: Path) -> int:
    frame = frame_number(name)
    if frame is None or frame > LARGEST:
        raise PolyplinkError(
            f"{place}{INSIDE}{name} has no frame number", "take the archive as released"
        )
    return frame
