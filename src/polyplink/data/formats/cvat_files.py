"""Where the files of a CVAT export are: XML files, or archives as exported."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import ZipArchive
from polyplink.data.files.folders import files_below

MEMBER = "annotations.xml"


@dataclass(frozen=True)
class CvatPath:
    """One file of annotations.

    Attributes:
        path: The XML file, or the archive it is in.
        member: Its name in the archive; None: it is a file of its own.
    """

    path: Path
    member: str | None

    @property
    def name(self) -> str:
        """The file's name for messages."""
        return self.path.name if self.member is None else f"{self.path.name}!/{self.member}"


def cvat_paths(source: Path) -> list[CvatPath]:
    """Find the files of a source.

    Args:
        source: An XML file, an archive with `annotations.xml`, or a folder of either.

    Raises:
        PolyplinkError: If there is none, or an archive is broken or has no annotations.
    """
    if source.is_file():
        return [_of_file(source)]
    if not source.is_dir():
        raise PolyplinkError(f"no file or folder {source}", "check the path")
    paths = [p for p in sorted(files_below(source)) if p.suffix.lower() in {".xml", ".zip"}]
    found = [_of_file(p) for p in paths if p.is_file() and p.name[0] != "."]
    if not found:
        raise PolyplinkError(
            f"{source} has no *.xml and no *.zip", "give what CVAT exported as CVAT for video 1.1"
        )
    return found


def _of_file(path: Path) -> CvatPath:
    if path.suffix.lower() != ".zip":
        return CvatPath(path, None)
    members = [n for n in ZipArchive(path).names() if n.rpartition("/")[2] == MEMBER]
    if not members:
        raise PolyplinkError(f"{path} has no {MEMBER}", "export it as CVAT for video 1.1")
    return CvatPath(path, members[0])


@contextmanager
def open_cvat(path: CvatPath) -> Iterator[BinaryIO]:
    """Open a file of annotations, in an archive or not.

    Raises:
        PolyplinkError: If it needs a password, or the archive is broken.
    """
    if path.member is None:
        with path.path.open("rb") as file:
            yield file
        return
    with ZipArchive(path.path).open(path.member) as member:
        yield cast(BinaryIO, member)


def member_images(path: CvatPath) -> dict[int, str]:
    """Images in an archive by frame number: `images/frame_000012.PNG`."""
    if path.member is None:
        return {}
    names = [
        name
        for name in ZipArchive(path.path).names()
        if name.lower().endswith((".png", ".jpg", ".jpeg"))
    ]
    stems = ((n, n.rpartition("/")[2].rpartition(".")[0].rpartition("_")[2]) for n in names)
    return {int(stem): name for name, stem in stems if stem.isdecimal()}
