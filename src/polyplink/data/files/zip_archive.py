"""A zip archive, listed and read where it lies."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from polyplink.errors import PolyplinkError

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
        with _opened(self.path) as archive:
            for info in sorted((self._infos[name] for name in names), key=_offset):
                try:
                    with archive.open(info) as file:
                        data = file.read(-1 if limit is None else limit)
                except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
                    raise PolyplinkError(
                        f"{self.path}, member {info.filename}, is damaged ({error})",
                        "download the archive again",
                    ) from None
                except (NotImplementedError, RuntimeError) as error:
                    raise PolyplinkError(
                        f"{self.path}, member {info.filename}, cannot be read ({error})",
                        "unpack the archive and remove it",
                    ) from None
                yield info.filename, data


def _offset(info: zipfile.ZipInfo) -> int:
    return info.header_offset


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise PolyplinkError(
            f"{path} is not a whole zip archive ({error})", "download it again"
        ) from None
    except OSError as error:
        raise PolyplinkError(f"{path}: {error.strerror}", "check its permissions") from None
