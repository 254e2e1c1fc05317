"""Zip and tar archives, listed and read in one pass without unpacking.

REAL-Colon's annotations are 2.76 million members of about a kilobyte, for each of which tarfile
creates an object with dozens of fields. This module only parses the header block of a tar member.
Layout of the blocks: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar
Format".
"""

import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from gzip import GzipFile
from pathlib import Path
from typing import IO, TypeVar

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.files.limits import check_member, check_total

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz")
BLOCK = 512  # bytes; a tar archive is made of blocks

Wanted = Callable[[str], bool]

T = TypeVar("T")

_GZIP = b"\x1f\x8b"  # first bytes of a compressed tar
_ABSENT = "not in the archive"
_AGAIN = "download it again"
_READ = 1 << 17  # bytes read from the disk at once
_AT_ONCE = 1 << 24  # bytes of a member read at once
# Exceptions for damaged bytes (OSError comes from bz2 and gzip, ValueError from invalid names,
# numbers and offsets)
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    EOFError,
    OSError,
    ValueError,
)
# and for a member with a password or an unknown compression (NotImplementedError is a subclass).
_LOCKED = RuntimeError
_ENCRYPTED = 0x1  # bit of the general purpose flags, APPNOTE.TXT 4.4.4

# A compressed tar can only be read from its beginning: members with these endings are kept while it
# is listed, so that a small text does not require a second pass over gigabytes of images.
_KEPT = (".txt", ".xml", ".csv", ".json", ".xlsx")

_FILES = (b"0", b"7", b"\0")  # kinds of tar members: files, contiguous files, files of old archives
_LONG_NAME, _PAX = b"L", b"x"
_EXTENSIONS = (_LONG_NAME, b"K", _PAX, b"g")  # members with long names of other members
_NO_CONTENT = b"123456"  # links, devices, folders, pipes: nothing to read
_LARGEST_NAME = 1 << 20  # of a long name or pax record, bytes


def is_archive(name: str) -> bool:
    """Whether a file name has the ending of a supported archive."""
    return name.lower().endswith(ENDINGS)


class Archive:
    """The files of an archive, listed when it is opened.

    Args:
        path: A .zip, .tar, .tar.gz or .tgz file.

    Attributes:
        path: The archive.
        names: Its files in the order of the archive, without links and devices.
        locked: Files that are encrypted.

    Raises:
        PolyplinkError: If it cannot be read, is incomplete, or exceeds a limit (`limits.py`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.locked: set[str] = set()
        self._contents: dict[str, bytes] = {}
        if _is_zip(path):
            with _open_zip(path) as archive:
                infos = _infos(archive)
            total = sum(info.file_size for info in infos.values())
            check_total(path, total, path.stat().st_size)
            self.names = list(infos)
            self.locked = {name for name, info in infos.items() if info.flag_bits & _ENCRYPTED}
            return
        names: dict[str, None] = {}
        is_compressed = not path.name.lower().endswith(".tar")

        def keep(name: str) -> bool:
            names[name] = None
            return is_compressed and name.lower().endswith(_KEPT)

        self._contents = dict(_tar_members(path, keep, None))
        self.names = list(names)

    def read(self, names: Collection[str], limit: int | None = None) -> Iterator[tuple[str, bytes]]:
        """Read some members in one pass; texts of a compressed tar were kept while listing it.

        Args:
            names: Names of the members.
            limit: Number of bytes from the beginning of each; None for all, which also checks the
                CRC of a zip.

        Yields:
            Name and bytes; first the texts that were kept, then others in the archive's order.

        Raises:
            PolyplinkError: If the archive cannot be read, or a member is damaged, encrypted or of
                an unknown compression.
        """
        yield from (
            (name, self._contents[name][:limit]) for name in names if name in self._contents
        )
        unread = {name for name in names if name not in self._contents}
        if unread:
            yield from read_members(self.path, unread.__contains__, limit)


def read_members(
    path: Path, is_wanted: Wanted, limit: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Read the wanted files of an archive in one pass, in its order; nothing is unpacked.

    Args:
        path: A .zip, .tar, .tar.gz or .tgz file; compression of a tar is recognised by its first
            bytes.
        is_wanted: Whether to read the file with a name; others are skipped. Called once for every
            regular file.
        limit: Number of bytes from the beginning of each file; None for the whole file.

    Yields:
        Name in the archive, and content.

    Raises:
        PolyplinkError: If the archive is cut short, damaged, of another format, or has a wanted
            member that is encrypted or of an unknown compression.
    """
    for name, data in _members(path, is_wanted, limit):
        if isinstance(data, str):
            raise PolyplinkError(
                f"{path}, member {name}, is damaged ({data})", "download the archive again"
            )
        yield name, data


def read_archived(path: Path, requested: Collection[str]) -> Iterator[tuple[str, bytes | str]]:
    """Read members of an archive in one pass, by their full name or its last part.

    An archive may contain its files in a folder that is not part of an image's name.

    Args:
        path: A .zip, .tar, .tar.gz or .tgz file.
        requested: Names of members.

    Yields:
        Every requested name with the member's bytes, or with the reason why it cannot be read.

    Raises:
        PolyplinkError: If the archive cannot be read, or contains none of the members.
    """
    pending = set(requested)

    # Member -> requested name; None for a tar, which can only be listed by reading all of it.
    listed: dict[str, str] | None = None
    if _is_zip(path):
        by_name = _by_last_part({member: member for member in Archive(path).names})
        listed = {by_name[name]: name for name in requested if name in by_name}

    def requested_as(member: str) -> str | None:
        """The requested name of a member; None if it is not wanted."""
        if listed is not None:
            return listed.get(member)
        names = (member, member.removeprefix("./"), member.rpartition("/")[2])
        return next((name for name in names if name in pending), None)

    for member, data in _members(path, lambda member: requested_as(member) is not None):
        name_of_member = requested_as(member)
        if name_of_member is not None:
            pending.discard(name_of_member)
            yield name_of_member, data
    if requested and len(pending) == len(requested):
        raise PolyplinkError(
            f"{path} has no member {next(iter(requested))}", "give the archive of these frames"
        )
    yield from ((name, _ABSENT) for name in requested if name in pending)


def member_reader(path: Path) -> Callable[[str], bytes | str]:
    """A function that reads one file of an archive at a time; the archive is listed once.

    A compressed tar, which has no places to jump to, is read from its beginning for every file.

    Args:
        path: A .zip, .tar, .tar.gz or .tgz file.

    Returns:
        Name of a file, in full or its last part -> its bytes, or the reason why it cannot be read.

    Raises:
        PolyplinkError: If the archive cannot be read.
    """
    if _is_zip(path):
        archive = _open_zip(path)
        infos = _by_last_part(_infos(archive))

        def read_zipped(name: str) -> bytes | str:
            info = infos.get(name)
            return _ABSENT if info is None else _read_zipped(archive, path, info, None)

        return read_zipped
    if _is_packed(path):
        return lambda name: dict(read_archived(path, [name]))[name]
    places = _by_last_part(_tar_places(path))

    def read_stored(name: str) -> bytes | str:
        place = places.get(name) or places.get(f"./{name}")
        if place is None:
            return _ABSENT
        offset, size = place
        with _readable(path, "is damaged"), path.open("rb") as file:
            file.seek(offset)
            return _exactly(file, size)

    return read_stored


def _by_last_part(members: Mapping[str, T]) -> dict[str, T]:
    """Members of an archive by their full names and by the last parts of these."""
    return {name.rpartition("/")[2]: member for name, member in members.items()} | dict(members)


def _tar_places(path: Path) -> dict[str, tuple[int, int]]:
    """Where the content of each file of an uncompressed tar begins, and its size, bytes."""
    places: dict[str, tuple[int, int]] = {}
    with (
        _readable(path, "is no tar archive, or is damaged"),
        tarfile.open(path, "r:", encoding="utf-8") as archive,
    ):
        for member in archive:
            if member.isreg() and not member.issparse():
                places.setdefault(member.name, (member.offset_data, member.size))
    return places


@contextmanager
def _readable(path: Path, damage: str) -> Iterator[None]:
    """Turn all exceptions for missing or damaged archives into user errors."""
    try:
        yield
    except FileNotFoundError:
        raise PolyplinkError(f"archive {path} is missing", "restore it, or import again") from None
    except EOFError:
        raise PolyplinkError(f"{path} is cut short", _AGAIN) from None
    except (*_DAMAGE, _LOCKED) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise PolyplinkError(f"{path}: {error.strerror}", "check its permissions") from None
        raise PolyplinkError(f"{path} {damage} ({first_line(error)})", _AGAIN) from None


def _is_zip(path: Path) -> bool:
    return path.name.lower().endswith(".zip")


def _is_packed(path: Path) -> bool:
    """Whether a tar archive is compressed, by its first bytes."""
    with _readable(path, "cannot be read"), path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def _members(
    path: Path, is_wanted: Wanted, limit: int | None = None
) -> Iterator[tuple[str, bytes | str]]:
    """Like `read_members`, but yield the reason for a damaged member of a zip."""
    if _is_zip(path):
        return _zip_members(path, is_wanted, limit)
    return _tar_members(path, is_wanted, limit)


def _open_zip(path: Path) -> zipfile.ZipFile:
    with _readable(path, "is not a whole zip archive"):
        return zipfile.ZipFile(path)


def _infos(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files of a zip archive by name, without folders."""
    return {
        info.filename: info for info in archive.infolist() if info.filename and not info.is_dir()
    }


def _zip_members(
    path: Path, is_wanted: Wanted, limit: int | None
) -> Iterator[tuple[str, bytes | str]]:
    """The wanted files of a zip archive in its order, or why one is damaged; see `read_members`."""
    with _open_zip(path) as archive:
        infos = [info for name, info in _infos(archive).items() if is_wanted(name)]
        for info in sorted(infos, key=lambda info: info.header_offset):
            yield info.filename, _read_zipped(archive, path, info, limit)


def _read_zipped(
    archive: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo, limit: int | None
) -> bytes | str:
    """A file of a zip archive, or why it is damaged; see `read_members`."""
    if limit is None:
        check_member(f"{path}, member {info.filename}", info.file_size, info.compress_size)
    try:
        with archive.open(info) as file:
            return file.read(-1 if limit is None else limit)
    except _DAMAGE as error:
        return first_line(error)
    except _LOCKED as error:
        raise PolyplinkError(
            f"{path}, member {info.filename}, cannot be read ({first_line(error)})",
            "unpack the archive beside itself and remove it",
        ) from None


def _tar_members(path: Path, accepts: Wanted, limit: int | None) -> Iterator[tuple[str, bytes]]:
    """The wanted files of a tar archive, in one pass; see `read_members`."""
    with (
        _readable(path, "is no tar archive, or is damaged"),
        path.open("rb", buffering=_READ) as raw,
    ):
        packed = _is_packed(path)
        file: IO[bytes] | GzipFile = GzipFile(fileobj=raw, mode="rb") if packed else raw
        long_name: str | None = None  # from an extension member, for the next member
        long_size: int | None = None
        length, total = path.stat().st_size, 0
        while (header := _exactly(file, BLOCK)).strip(b"\0"):
            name, size, kind = _parse(header)
            total += BLOCK + size
            check_total(path, total if packed else 0, length)

            # A member that holds the name or the size of the next one.
            if kind in _EXTENSIONS:
                text = _exactly(file, _padded_size(size))[:size]
                if kind == _LONG_NAME:
                    long_name = _decode(text.split(b"\0", 1)[0])
                elif kind == _PAX:
                    records = _pax_records(text)
                    long_name = records.get("path", long_name)
                    long_size = int(records["size"]) if "size" in records else None
                continue

            # A wanted member is read whole if it fits the limit.
            name, size = long_name or name, size if long_size is None else long_size
            long_name = long_size = None
            if kind in _NO_CONTENT:
                continue
            if size < 0 or (not packed and size > length):
                raise EOFError
            is_wanted = kind in _FILES and not name.endswith("/") and accepts(name)
            if is_wanted and packed and limit is None:
                check_member(f"{path}, member {name}", size, length)
            if is_wanted and (limit is None or size <= limit):
                yield name, _exactly(file, _padded_size(size))[:size]
                continue

            # Of a longer one only the beginning is read; the rest, and other members, are skipped.
            data = _exactly(file, (limit or 0) if is_wanted else 0)
            remaining = _padded_size(size) - len(data)
            if not packed and remaining > _READ:  # the next header shows a seek beyond the end
                file.seek(remaining, 1)
                remaining = 0
            while remaining:
                remaining -= len(_exactly(file, min(remaining, 1 << 20)))
            if is_wanted:
                yield name, data
        while file.read(1 << 20):  # the padding after the last member: gzip verifies its checksum
            pass


def _padded_size(size: int) -> int:
    """Bytes of a member of a tar with its padding to whole blocks."""
    return -(-size // BLOCK) * BLOCK


def _exactly(file: IO[bytes] | GzipFile, size: int) -> bytes:
    """Read a number of bytes; raises EOFError if the file ends before."""
    parts: list[bytes] = []
    while size and (block := file.read(min(size, _AT_ONCE))):  # a damaged header may claim any size
        parts.append(block)
        size -= len(block)
    if size:
        raise EOFError
    return b"".join(parts)


def _parse(header: bytes) -> tuple[str, int, bytes]:
    """Name, size and kind of a header block, checked against its checksum."""
    total = sum(header) - sum(header[148:156]) + 8 * 32  # the field itself counts as spaces
    if _number(header[148:156]) != total:
        raise ValueError("checksum of a header")
    size, kind = _number(header[124:136]), header[156:157]
    if kind in _EXTENSIONS and size > _LARGEST_NAME:
        raise ValueError(f"a name of {size} bytes")
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and header[345] != 0:
        name = header[345:500].split(b"\0", 1)[0] + b"/" + name
    return _decode(name), size, kind


def _number(field: bytes) -> int:
    """An octal number, or a binary one of GNU tar (first bit set)."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    return int(field.split(b"\0", 1)[0].strip() or b"0", 8)


def _pax_records(text: bytes) -> dict[str, str]:
    """Records of a pax header: `length keyword=value` and a newline; length counts all bytes."""
    records = {}
    while text:
        length, _, record = text.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(text):
            raise ValueError("pax header")
        keyword, _, value = record[: int(length) - len(length) - 2].partition(b"=")
        records[_decode(keyword)] = _decode(value)
        text = text[int(length) :]
    return records


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
