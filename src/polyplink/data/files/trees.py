"""One list of all files of a download, in folders and in archives; nothing is unpacked.

Each is named as in the column `image`, relative to the root (see `image_names`).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from polyplink.core.errors import PolyplinkError, escape_control
from polyplink.core.messages import Message
from polyplink.data.faults import Faults
from polyplink.data.files.archives import ENDINGS, Archive, is_archive
from polyplink.data.files.folders import (
    IMAGE_ENDINGS,
    check_is_folder,
    check_utf8,
    raise_unreadable,
    read_small,
)
from polyplink.data.files.image_names import INSIDE, image_place, member_name
from polyplink.data.files.images import image_size

Parsed = TypeVar("Parsed")

_HEADER = 1 << 12  # bytes: contain the size of nearly every image


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a tree.

    Attributes:
        path: Path relative to the root, as if its archive were unpacked in place; `/`-separated.
        image: Name for the column `image`, relative to the tree's root.
    """

    path: str
    image: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the name with the dot, in lower case."""
        return os.path.splitext(self.path)[1].lower()  # noqa: PTH122 - no path object for each


@dataclass(frozen=True)
class Tree:
    """The files of a download.

    Attributes:
        root: Folder that image names are relative to.
        members: Files in folders sorted by path, then the files of each archive in its order.
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
            members: The files, each once.
            limit: Number of bytes from the beginning of each; None for whole files.

        Yields:
            Each member and its bytes.

        Raises:
            PolyplinkError: If a file cannot be read, or an archive is broken.
        """
        in_archives: dict[str, dict[str, Member]] = {}
        for member in members:
            place = image_place(member.image)
            if place.member is not None:
                in_archives.setdefault(place.file, {})[place.member] = member
                continue
            yield member, read_small(f"{self.root}{os.sep}{member.image}", limit)
        for archive, names in in_archives.items():
            for name, data in self.archives[archive].read(names, limit):
                yield names[name], data

    def parse_each(
        self, members: Iterable[Member], parse: Callable[[bytes, str], Parsed], faults: Faults
    ) -> dict[Member, Parsed]:
        """Read and parse files, those of an archive in one pass over it.

        Args:
            members: The files, each once.
            parse: Called with a file's bytes and name; raises PolyplinkError if it is malformed.
            faults: Counts the files that cannot be parsed, which are left out.

        Returns:
            The parsed content of each file.

        Raises:
            PolyplinkError: If a file or archive cannot be read; if strict, at the first file that
                cannot be parsed.
        """
        parsed = {}
        for member, data in self.read_many(members):
            try:
                parsed[member] = parse(data, member.image)
            except PolyplinkError as error:
                if faults.strict:
                    raise
                faults.warn(Message("import.broken_annotation"), error.what)
        return parsed

    def image_sizes(
        self, members: Sequence[Member], faults: Faults
    ) -> dict[Member, tuple[int, int]]:
        """Width and height of images, pixels, from their headers; no pixel is decoded.

        Args:
            members: The images, each once.
            faults: Counts files that are not images, which are left out.

        Raises:
            PolyplinkError: If a file cannot be read; if strict, at the first that is not an image.
        """
        sizes: dict[Member, tuple[int, int]] = {}
        for limit in (_HEADER, None):  # None: the size may come after a large colour profile
            unsized = [member for member in members if member not in sizes]
            for member, data in self.read_many(unsized, limit):
                size = image_size(data)
                if not isinstance(size, str):
                    sizes[member] = size
                elif limit is None:
                    hint = "restore it, or remove it"
                    faults.fault(Message("import.not_an_image"), member.image, hint)
        return sizes


def decode_text(data: bytes, name: str) -> str:
    """Decode the UTF-8 text of a file; a byte order mark is dropped.

    Raises:
        PolyplinkError: If the text is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PolyplinkError(
            f"{name} is not UTF-8 text", "save it as UTF-8, or download it again"
        ) from None


def open_tree(source: Path, faults: Faults) -> Tree:
    """List a folder and the archives in it, or one archive.

    Hidden files (a part of the path begins with a dot, or is `__MACOSX`) are not listed. If an
    archive's member also exists unpacked, next to the archive or in a folder of the archive's name,
    the unpacked file is used. An encrypted archive is ignored if all its files exist unpacked
    anywhere in the tree.

    Args:
        source: A folder, or a .zip, .tar, .tar.gz or .tgz file.
        faults: Counts archives inside archives, which are not opened, and members with odd paths.

    Returns:
        The tree; its root is the folder, or the folder of the archive.

    Raises:
        PolyplinkError: If the folder or archive does not exist, or an archive is broken, or
            encrypted and not unpacked.
    """
    if source.is_dir():
        root, files = source, sorted(walk_files(source))
    elif source.is_file() and is_archive(source.name):
        root, files = source.parent, [source.name]
    elif source.exists():
        check_is_folder(source)
        raise PolyplinkError(
            f"{source} is neither a folder nor an archive ({', '.join(ENDINGS)})",
            "give the folder of the data set",
        )
    else:
        raise PolyplinkError(f"no folder {source}", "check the path")
    members = [Member(name, name) for name in files if not is_archive(name)]
    unpacked = {member.path for member in members}
    archives = {name: Archive(root / name) for name in files if is_archive(name)}
    for name, archive in archives.items():
        members += _members(name, archive, unpacked, faults)
    return Tree(root, members, archives)


def walk_files(source: Path) -> Iterator[str]:
    """Files under a folder, relative to it, without hidden ones; linked folders too, each once.

    Raises:
        PolyplinkError: If a folder may not be read, its name ends in `!`, or a name is not UTF-8.
    """
    visited = set()
    for folder, folders, names in os.walk(source, followlinks=True, onerror=raise_unreadable):
        status = os.stat(folder)  # noqa: PTH116 - as os.walk gives it
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()  # a link back to a visited folder
            continue
        visited.add((status.st_dev, status.st_ino))
        # In order, so that of several links to a folder always the same one is visited first.
        folders[:] = sorted(check_utf8(name, folder) for name in folders if not _hidden(name))
        prefix = Path(folder).relative_to(source).as_posix()
        if "!" in prefix and INSIDE in f"{prefix}/":
            raise PolyplinkError(
                f"folder {folder} ends in `!`, which marks an archive", "rename it"
            )
        for name in names:
            if not _hidden(check_utf8(name, folder)):
                yield name if prefix == "." else f"{prefix}/{name}"


def image_names(folder: Path) -> list[str]:
    """Image files under a folder, relative to it, sorted; without hidden ones."""
    return [name for name in sorted(walk_files(folder)) if name.lower().endswith(IMAGE_ENDINGS)]


def image_files(folder: Path) -> list[Path]:
    """Image files under a folder, sorted; without hidden ones.

    Raises:
        PolyplinkError: If there is no folder or no image, and see `walk_files`.
    """
    check_is_folder(folder)
    names = image_names(folder)
    if not names:
        raise PolyplinkError(f"{folder} has no image files", "check the path")
    return [folder / name for name in names]


def _hidden(part: str) -> bool:
    return part.startswith(".") or part == "__MACOSX"


def _members(name: str, archive: Archive, unpacked: set[str], faults: Faults) -> list[Member]:
    """The members of an archive that do not exist unpacked in the tree.

    Unpacked members are next to the archive or in a folder of its name; encrypted members, which
    the user may have unpacked anywhere, are recognised by folder and name.
    """
    folder, _, file_name = name.rpartition("/")
    folder_parts, stem = [folder] if folder else [], file_name.split(".")[0]
    members, locked = [], set()
    for member in archive.names:
        parts = member.replace("\\", "/").removeprefix("./").split("/")
        if any(_hidden(part) and part != ".." for part in parts):
            continue
        path = "/".join([*folder_parts, *parts])
        if {path, "/".join([*folder_parts, stem, *parts])} & unpacked:
            continue
        if ".." in parts or "" in parts or member != escape_control(member):
            faults.warn(Message("import.odd_path"), member_name(name, member))
        elif is_archive(parts[-1]):
            faults.warn(Message("import.nested_archive"), member_name(name, member))
        elif member in archive.locked:
            locked.add("/".join(path.split("/")[-2:]))
        else:
            members.append(Member(path, member_name(name, member)))
    if locked and not locked <= {"/".join(file.split("/")[-2:]) for file in unpacked}:
        raise PolyplinkError(
            f"{archive.path} requires a password",
            "unpack it in its folder (`unzip -P PASSWORD -d "
            f"{archive.path.with_suffix('')} {archive.path}`)",
        )
    return members
