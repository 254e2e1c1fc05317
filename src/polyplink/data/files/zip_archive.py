"""A zip archive, listed and read where it lies: the one place that knows how zips are broken."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from polyplink.core.errors import PolyplinkError, first_line

# What zipfile raises over bytes that are not whole (OSError is bz2's, ValueError of names and
# offsets that make no sense)
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
)
# and over a member with a password or packed in a way that it does not know (NotImplementedError
# is one of these).
LOCKED = RuntimeError

_ENCRYPTED = 0x1  # bit of the general purpose flags, APPNOTE.TXT 4.4.4


class ZipArchive:
    """The files of a zip archive.

    Args:
        path: The archive.

    Raises:
        PolyplinkError: If it cannot be read or is not whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as archive:
            self._infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}

    def names(self) -> list[str]:
        """The files in it, as it names them, in its order."""
        return list(self._infos)

    def asks_password(self, name: str) -> bool:
        """Whether only a password would open a member."""
        return bool(self._infos[name].flag_bits & _ENCRYPTED)

    def read(self, names: list[str], limit: int | None) -> Iterator[tuple[str, bytes]]:
        """Read some members.

        Args:
            names: Which.
            limit: Bytes from the beginning of each; None for all, whose checksum is then held.

        Yields:
            Name and bytes, in the archive's order.

        Raises:
            PolyplinkError: If the archive is damaged or a member is packed in an unknown way.
        """
        for name, data in self.read_each(names, limit):
            if isinstance(data, str):
                raise self._damaged(name, data)
            yield name, data

    def read_each(
        self, names: list[str], limit: int | None = None
    ) -> Iterator[tuple[str, bytes | str]]:
        """Read some members as `read` does; one that is damaged is told and does not stop it.

        Yields:
            Name and bytes, or why they cannot be had, in the archive's order.

        Raises:
            PolyplinkError: If the archive is gone, or a member asks for a password or is packed
                in an unknown way.
        """
        with _opened(self.path) as archive:
            for info in sorted((self._infos[name] for name in names), key=_offset):
                data: bytes | str
                try:
                    with archive.open(info) as file:
                        data = file.read(-1 if limit is None else limit)
                except DAMAGE as error:
                    data = first_line(error)
                except LOCKED as error:
                    raise self._locked(info.filename, error) from None
                yield info.filename, data

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A member as a file to be read bit by bit.

        Raises:
            PolyplinkError: As `read`, at whatever place the damage shows.
        """
        with _opened(self.path) as archive:
            try:
                with archive.open(self._infos[name]) as file:
                    yield file
            except DAMAGE as error:
                raise self._damaged(name, first_line(error)) from None
            except LOCKED as error:
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


def _offset(info: zipfile.ZipInfo) -> int:
    return info.header_offset


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise PolyplinkError(f"archive {path} is missing", "restore it, or import again") from None
    except OSError as error:
        raise PolyplinkError(
            f"{path}: {error.strerror or error}", "check its permissions"
        ) from None
    except (*DAMAGE, LOCKED) as error:
        raise PolyplinkError(
            f"{path} is not a whole zip archive ({first_line(error)})", "download it again"
        ) from None
