"""A tar archive, plain or compressed by gzip, listed and read where it lies."""

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polyplink.core.errors import PolyplinkError

# A compressed archive can only be read from its beginning: its annotations are kept while it is
# listed, so that a small text does not cost a second pass over gigabytes of images.
_KEPT = (".txt", ".xml", ".csv", ".json", ".xlsx")
_KEPT_BYTES = 1 << 24  # of one member


class TarArchive:
    """The files of a tar archive; links and devices are not listed.

    Args:
        path: The archive, .tar, .tar.gz or .tgz.

    Raises:
        PolyplinkError: If it cannot be read or is not whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._infos: dict[str, tarfile.TarInfo] = {}
        self._kept: dict[str, bytes] = {}
        self._packed = not path.name.lower().endswith(".tar")
        with self._opened() as archive:
            for info in archive:
                if info.isreg():
                    self._infos[info.name] = info
                    if self._packed and info.name.lower().endswith(_KEPT):
                        self._keep(archive, info)
            self._refuse_cut(archive)

    def _keep(self, archive: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        file = archive.extractfile(info)
        if file is not None and info.size <= _KEPT_BYTES:
            self._kept[info.name] = file.read()

    def _refuse_cut(self, archive: tarfile.TarFile) -> None:
        """Members end in a block of zeros; tarfile also stops at a cut or a broken header."""
        archive.fileobj.seek(archive.offset)
        if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise PolyplinkError(f"{self.path} is cut short or damaged", "download it again")

    def names(self) -> list[str]:
        """The files in it, as it names them, in its order."""
        return list(self._infos)

    def read(self, names: list[str], limit: int | None) -> Iterator[tuple[str, bytes]]:
        """Read some members; what was not kept while listing costs one pass if compressed.

        Args:
            names: Which.
            limit: Bytes from the beginning of each; None for all.

        Yields:
            Name and bytes, in the archive's order.

        Raises:
            PolyplinkError: If the archive cannot be read.
        """
        rest = [name for name in names if name not in self._kept]
        for name in names:
            if name in self._kept:
                yield name, self._kept[name][:limit]
        if not rest:
            return
        with self._opened() as archive:
            for info in sorted((self._infos[name] for name in rest), key=_offset):
                file = archive.extractfile(info)
                if file is not None:
                    yield info.name, file.read() if limit is None else file.read(limit)

    @contextmanager
    def _opened(self) -> Iterator[tarfile.TarFile]:
        """The archive open; whatever shows that it is broken becomes the one clear error."""
        try:
            with tarfile.open(self.path, "r:gz" if self._packed else "r:") as archive:
                yield archive
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise PolyplinkError(
                f"{self.path} is not a whole tar archive ({error})", "download it again"
            ) from None
        except OSError as error:
            raise PolyplinkError(
                f"{self.path}: {error.strerror or error}", "download it again"
            ) from None


def _offset(info: tarfile.TarInfo) -> int:
    return info.offset_data
