"""A released tree as one list of files, be they in folders or in archives; nothing is unpacked.

A member inside an archive is named `ARCHIVE.zip!/member/path`, the archive's path relative to the
root, `!/`, and the member as the archive names it. That name is what the column `image` holds.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.tar_archive import TarArchive
from polyplink.data.files.walking import refuse
from polyplink.data.files.zip_archive import ZipArchive

INSIDE = "!/"  # between an archive and the member in it
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a tree.

    Attributes:
        path: Where it would lie if its archive were unpacked where it is; `/` between the parts.
        image: Its name for the column `image`, relative to the tree's root.
    """

    path: str
    image: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the name with its dot, in lower case."""
        return os.path.splitext(self.path)[1].lower()  # noqa: PTH122 - no path object for each


class Archive(Protocol):
    """What a tree needs of an archive."""

    def names(self) -> list[str]:
        """The files in it, as it names them, in its order."""

    def read(self, names: list[str], limit: int | None) -> Iterator[tuple[str, bytes]]:
        """The first `limit` bytes (None: all) of some members, in the archive's order."""


@dataclass(frozen=True)
class Tree:
    """The files of a released tree.

    Attributes:
        root: Folder that image names are relative to.
        members: Files in folders sorted by path, then those of each archive in its order.
        archives: Path of an archive relative to the root -> the archive.
    """

    root: Path
    members: list[Member]
    archives: dict[str, Archive]

    def read(self, member: Member) -> bytes:
        """Read one small file.

        Raises:
            PolyplinkError: If it cannot be read, or its archive is broken.
        """
        return next(data for _, data in self.read_many([member]))

    def read_many(
        self, members: Iterable[Member], limit: int | None = None
    ) -> Iterator[tuple[Member, bytes]]:
        """Read many files; those of an archive in the archive's order, in one pass over it.

        Args:
            members: Which, each once.
            limit: Bytes from the beginning of each; None for all of it.

        Yields:
            Each member and its bytes.

        Raises:
            PolyplinkError: If a file cannot be read, or an archive is broken.
        """
        inside: dict[str, dict[str, Member]] = {}
        for member in members:
            archive, mark, name = member.image.partition(INSIDE)
            if mark:
                inside.setdefault(archive, {})[name] = member
            else:
                yield member, _read_file(self.root / member.image, limit)
        for archive, wanted in inside.items():
            for name, data in self.archives[archive].read(list(wanted), limit):
                yield wanted[name], data


def open_tree(source: Path, faults: Faults) -> Tree:
    """List a folder and the archives in it, or one archive.

    Hidden files (a part of the path begins with a dot, or is `__MACOSX`) are not listed. Where
    the folder also holds an archive's member unpacked, in the archive's folder or in one of the
    archive's name, the unpacked file is taken. An archive with a password is passed over if all
    its files lie unpacked anywhere in the tree.

    Args:
        source: A folder, or a .zip, .tar, .tar.gz or .tgz file.
        faults: Told of archives inside archives, which are not looked into, and of members with
            odd paths.

    Returns:
        The tree; its root is the folder, or the one that the archive lies in.

    Raises:
        PolyplinkError: If there is no such folder or archive, or an archive is broken, or asks
            for a password and is not unpacked.
    """
    if source.is_dir():
        root, files = source, sorted(_walk(source))
    elif source.is_file() and is_archive(source.name):
        root, files = source.parent, [source.name]
    elif source.exists():
        raise PolyplinkError(
            f"{source} is neither a folder nor an archive ({', '.join(_ARCHIVES)})",
            "name the folder of the data set",
        )
    else:
        raise PolyplinkError(f"no folder {source}", "check the path")
    members = [Member(name, name) for name in files if not is_archive(name)]
    unpacked = {member.path for member in members}
    archives = {}
    for name in files:
        if is_archive(name):
            found, archive = _open_archive(root, name, unpacked, faults)
            members += found
            archives[name] = archive
    return Tree(root, members, archives)


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive that can be read."""
    return name.lower().endswith(_ARCHIVES)


def _walk(source: Path) -> Iterator[str]:
    """Files under a folder, relative to it; linked folders too, each once."""
    seen = set()
    for folder, folders, names in os.walk(source, followlinks=True, onerror=refuse):
        place = os.stat(folder)  # noqa: PTH116 - as os.walk gives it
        if (place.st_dev, place.st_ino) in seen:
            folders.clear()  # a link that leads back
            continue
        seen.add((place.st_dev, place.st_ino))
        folders[:] = [name for name in folders if not _hidden(name)]
        prefix = Path(folder).relative_to(source).as_posix()
        if "!" in prefix and INSIDE in f"{prefix}/":
            raise PolyplinkError(
                f"folder {folder} ends in `!`, which marks an archive", "rename it"
            )
        for name in names:
            if not _hidden(name):
                yield name if prefix == "." else f"{prefix}/{name}"


def _hidden(part: str) -> bool:
    return part.startswith(".") or part == "__MACOSX"


def _open_archive(
    root: Path, name: str, unpacked: set[str], faults: Faults
) -> tuple[list[Member], Archive]:
    """The members of an archive that are not unpacked beside it, and the archive."""
    zipped = name.lower().endswith(".zip")
    archive: ZipArchive | TarArchive = (ZipArchive if zipped else TarArchive)(root / name)
    beside, _, last = name.rpartition("/")
    stem = last.split(".")[0]
    members = []
    for inner in archive.names():
        parts = inner.replace("\\", "/").removeprefix("./").split("/")
        if any(_hidden(part) and part != ".." for part in parts):
            continue
        here = [beside] if beside else []
        if {"/".join([*here, *parts]), "/".join([*here, stem, *parts])} & unpacked:
            continue
        if ".." in parts or "" in parts:
            faults.warn("archive member with an odd path, left out", f"{name}{INSIDE}{inner}")
        elif is_archive(parts[-1]):
            faults.warn("archive inside an archive, not looked into", f"{name}{INSIDE}{inner}")
        else:
            members.append(Member("/".join([*here, *parts]), f"{name}{INSIDE}{inner}"))
    if isinstance(archive, ZipArchive):
        members = _without_locked(root / name, archive, members, unpacked)
    return members, archive


def _without_locked(
    path: Path, archive: ZipArchive, members: list[Member], unpacked: set[str]
) -> list[Member]:
    """Leave out what a password locks, if it lies unpacked somewhere in the tree.

    Such an archive was unpacked by hand, wherever to: its files are known by folder and name.
    """
    locked = [m for m in members if archive.asks_password(m.image.partition(INSIDE)[2])]
    if locked and not {_tail(m.path) for m in locked} <= {_tail(name) for name in unpacked}:
        raise PolyplinkError(
            f"{path} asks for a password",
            f"unpack it beside itself (`unzip -P PASSWORD -d {path.with_suffix('')} {path}`)",
        )
    gone = set(locked)
    return [member for member in members if member not in gone]


def _tail(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def _read_file(path: Path, limit: int | None) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(-1 if limit is None else limit)
    except OSError as error:
        raise PolyplinkError(
            f"{path}: {error.strerror}", "restore the file, or check its permissions"
        ) from None
