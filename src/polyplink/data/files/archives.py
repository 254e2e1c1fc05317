"""Zip and tar archives, listed and read where they lie: the one place that knows how they break."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.files.tar_stream import tar_members

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz")
INSIDE = "!/"  # between an archive and the member in it: `ARCHIVE.zip!/member`

# What zipfile raises over damaged bytes (OSError comes from bz2, ValueError from names and offsets
# that make no sense)
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
)
# and over a member with a password or an unknown compression (NotImplementedError is one of these).
_LOCKED = RuntimeError
_ENCRYPTED = 0x1  # bit of the general purpose flags, APPNOTE.TXT 4.4.4

# A compressed tar can only be read from its beginning: its annotations are kept while it is
# listed, so that a small text does not cost a second pass over gigabytes of images.
_KEPT = (".txt", ".xml", ".csv", ".json", ".xlsx")


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive that can be read."""
    return name.lower().endswith(ENDINGS)


def open_archive(path: Path) -> "ZipArchive | TarArchive":
    """List an archive, by its ending.

    Raises:
        PolyplinkError: If it cannot be read or is not whole.
    """
    return ZipArchive(path) if path.name.lower().endswith(".zip") else TarArchive(path)


class ZipArchive:
    """The files of a zip archive.

    Args:
        path: The archive.

    Raises:
        PolyplinkError: If it cannot be read or is not whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _open_zip(path) as archive:
            self._infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}

    def names(self) -> list[str]:
        """The files in it, in the archive's order."""
        return list(self._infos)

    def asks_password(self, name: str) -> bool:
        """Whether a member is encrypted."""
        return bool(self._infos[name].flag_bits & _ENCRYPTED)

    def read(self, names: Collection[str], limit: int | None = None) -> Iterator[tuple[str, bytes]]:
        """Read some members.

        Args:
            names: Which.
            limit: Bytes from the beginning of each; None for all, which also checks the CRC.

        Yields:
            Name and bytes, in the archive's order.

        Raises:
            PolyplinkError: If a member is damaged, encrypted or of an unknown compression.
        """
        for name, data in self.read_each(names, limit):
            if isinstance(data, str):
                raise self._damaged(name, data)
            yield name, data

    def read_each(
        self, names: Collection[str], limit: int | None = None
    ) -> Iterator[tuple[str, bytes | str]]:
        """As `read`, but a damaged member yields the reason as a string instead of raising.

        Raises:
            PolyplinkError: If the archive is gone, or a member is encrypted or of an unknown
                compression.
        """
        with _open_zip(self.path) as archive:
            infos = [self._infos[name] for name in names]
            for info in sorted(infos, key=lambda info: info.header_offset):
                data: bytes | str
                try:
                    with archive.open(info) as file:
                        data = file.read(-1 if limit is None else limit)
                except _DAMAGE as error:
                    data = first_line(error)
                except _LOCKED as error:
                    raise self._locked(info.filename, error) from None
                yield info.filename, data

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A member as a file, read piece by piece.

        Raises:
            PolyplinkError: As `read`, wherever damage is detected.
        """
        with _open_zip(self.path) as archive:
            try:
                with archive.open(self._infos[name]) as file:
                    yield file
            except _DAMAGE as error:
                raise self._damaged(name, first_line(error)) from None
            except _LOCKED as error:
                raise self._locked(name, error) from None

    def _damaged(self, name: str, why: str) -> PolyplinkError:
        return PolyplinkError(
            f"{self.path}, member {name}, is damaged ({why})", "download the archive again"
        )

    def _locked(self, name: str, error: Exception) -> PolyplinkError:
        return PolyplinkError(
            f"{self.path}, member {name}, cannot be read ({first_line(error)})",
            "unpack the archive beside itself and remove it",
        )


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise PolyplinkError(f"archive {path} is missing", "restore it, or import again") from None
    except OSError as error:
        raise PolyplinkError(
            f"{path}: {error.strerror or error}", "check its permissions"
        ) from None
    except (*_DAMAGE, _LOCKED) as error:
        raise PolyplinkError(
            f"{path} is not a whole zip archive ({first_line(error)})", "download it again"
        ) from None


class TarArchive:
    """The files of a tar archive, plain or compressed by gzip; links and devices are not listed.

    Args:
        path: The archive.

    Raises:
        PolyplinkError: If it cannot be read or is not whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: dict[str, None] = {}
        plain = path.name.lower().endswith(".tar")

        def keep(name: str) -> bool:
            self._names[name] = None
            return not plain and name.lower().endswith(_KEPT)

        self._kept = dict(tar_members(path, keep))

    def names(self) -> list[str]:
        """The files in it, in the archive's order."""
        return list(self._names)

    def read(self, names: Collection[str], limit: int | None = None) -> Iterator[tuple[str, bytes]]:
        """Read some members; one pass over the archive, except for texts kept while listing.

        Args:
            names: Which.
            limit: Bytes from the beginning of each; None for all.

        Yields:
            Name and bytes.

        Raises:
            PolyplinkError: If the archive cannot be read.
        """
        yield from ((name, self._kept[name][:limit]) for name in names if name in self._kept)
        rest = {name for name in names if name not in self._kept}
        if rest:
            yield from tar_members(self.path, rest.__contains__, limit)


def read_archived(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes | str]]:
    """Read members of an archive in one pass, found by their whole name or the last part of it.

    An archive may pack its files in a folder that the name of an image does not have.

    Args:
        path: A .zip, .tar, .tar.gz or .tgz file.
        wanted: Names of members.

    Yields:
        Every wanted name with the member's bytes, or with the reason why there are none.

    Raises:
        PolyplinkError: If the archive cannot be read, or has none of the members.
    """
    left = set(wanted)
    if path.name.lower().endswith(".zip"):
        archive = ZipArchive(path)
        whole = set(archive.names())
        last = {name.rpartition("/")[2]: name for name in archive.names()}
        found = {m if m in whole else last[m]: m for m in wanted if m in whole or m in last}
        for name, read in archive.read_each(found):
            left.discard(found[name])
            yield found[name], read
    else:

        def known(name: str) -> str | None:
            names = (name, name.removeprefix("./"), name.rpartition("/")[2])
            return next((n for n in names if n in left), None)

        for name, data in tar_members(path, lambda name: known(name) is not None):
            if (member := known(name)) is not None:
                left.remove(member)
                yield member, data
    if wanted and len(left) == len(wanted):
        raise PolyplinkError(
            f"{path} has no member {next(iter(wanted))}", "give the archive of these frames"
        )
    yield from ((name, "not in the archive") for name in wanted if name in left)
