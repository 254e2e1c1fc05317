"""A tar archive read once from its beginning to its end, plain or compressed by gzip.

REAL-Colon's annotations are 2.76 million members of about a kilobyte; tarfile makes an object of
dozens of fields for each. Here a member costs one look at its header block. Layout of the blocks:
POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar Format".
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from gzip import GzipFile
from pathlib import Path
from typing import IO

from polyplink.core.errors import PolyplinkError

BLOCK = 512
_FILE, _CONTIGUOUS, _OLD_FILE = b"0", b"7", b"\0"
_LONG_NAME, _LONG_LINK, _PAX, _PAX_ALL = b"L", b"K", b"x", b"g"
_NO_CONTENT = b"123456"  # links, devices, folders, pipes: nothing to read
_LARGEST_NAME = 1 << 20  # of a long name or pax record, bytes
_READ = 1 << 17  # bytes asked of the disk at once
_MEND = "download it again"

Wanted = Callable[[str], bool]


def tar_members(
    path: Path, wanted: Wanted, limit: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Read the wanted files of a tar archive in one pass, in its order; nothing is unpacked.

    Args:
        path: A .tar, .tar.gz or .tgz file; which of them is seen from its first bytes.
        wanted: Whether the file of this name is to be read; others are skipped. Called once for
            every regular file.
        limit: Bytes from the beginning of each file; None for all of it.

    Yields:
        Name, as the archive has it, and content.

    Raises:
        PolyplinkError: If the archive is cut short, damaged, or no tar archive.
    """
    with _opened(path) as file:
        seekable = not isinstance(file, GzipFile)
        override: str | None = None  # a long name holds for the next member
        size_override: int | None = None
        while True:
            header = _exactly(file, BLOCK, path)
            if not header.strip(b"\0"):
                _read_to_end(file)
                return
            name, size, kind = _parse(header, path)
            if kind in (_LONG_NAME, _LONG_LINK, _PAX, _PAX_ALL):
                text = _content(file, _at_most(size, path), path)
                if kind == _LONG_NAME:
                    override = _decode(text.split(b"\0", 1)[0])
                elif kind == _PAX:
                    records = _pax_records(text, path)
                    override = records.get("path", override)
                    size_override = int(records["size"]) if "size" in records else None
                continue
            name, size = override or name, size if size_override is None else size_override
            override = size_override = None
            if kind in _NO_CONTENT:
                continue
            if kind in (_FILE, _CONTIGUOUS, _OLD_FILE) and not name.endswith("/") and wanted(name):
                if limit is None or size <= limit:
                    yield name, _content(file, size, path)
                else:
                    data = _exactly(file, limit, path)
                    _skip(file, -(-size // BLOCK) * BLOCK - limit, path, seekable)
                    yield name, data
            else:
                _skip(file, -(-size // BLOCK) * BLOCK, path, seekable)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The uncompressed bytes; every sign of damage becomes one clear error."""
    try:
        with path.open("rb", buffering=_READ) as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not packed:
                yield raw
                return
            with GzipFile(fileobj=raw, mode="rb") as file:
                yield file  # type: ignore[misc]  # a GzipFile reads as any file does
    except EOFError:
        raise PolyplinkError(f"{path} is cut short", _MEND) from None
    except zlib.error as error:
        raise PolyplinkError(f"{path} is damaged ({error})", _MEND) from None
    except FileNotFoundError:
        raise PolyplinkError(f"archive {path} is missing", "restore it, or import again") from None
    except OSError as error:
        if error.errno is None:  # gzip's own: a bad checksum, no gzip file
            raise PolyplinkError(f"{path} is damaged ({error})", _MEND) from None
        raise PolyplinkError(f"{path}: {error.strerror}", "check its permissions") from None


def _exactly(file: IO[bytes], size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) == size:
        return data
    parts = [data]
    left = size - len(data)
    while left and (more := file.read(left)):
        parts.append(more)
        left -= len(more)
    if left:
        raise PolyplinkError(f"{path} is cut short", _MEND)
    return b"".join(parts)


def _content(file: IO[bytes], size: int, path: Path) -> bytes:
    return _exactly(file, -(-size // BLOCK) * BLOCK, path)[:size]


def _skip(file: IO[bytes], size: int, path: Path, seekable: bool) -> None:
    if seekable and size > _READ:  # a seek beyond the end shows at the next header
        file.seek(size, 1)
        return
    while size:
        size -= len(_exactly(file, min(size, 1 << 20), path))


def _read_to_end(file: IO[bytes]) -> None:
    """Read the padding after the last member, so that gzip verifies its checksum."""
    while file.read(1 << 20):
        pass


def _parse(header: bytes, path: Path) -> tuple[str, int, bytes]:
    """Name, size and kind of a header block, checked against its checksum."""
    stated = _number(header[148:156], path)
    total = sum(header) - sum(header[148:156]) + 8 * 32  # the field itself counts as spaces
    if stated != total:
        raise PolyplinkError(f"{path} is no tar archive, or is damaged", _MEND)
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and header[345] != 0:
        name = header[345:500].split(b"\0", 1)[0] + b"/" + name
    return _decode(name), _number(header[124:136], path), header[156:157]


def _number(field: bytes, path: Path) -> int:
    """An octal number, or GNU's binary one with its first bit set."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    try:
        return int(field.split(b"\0", 1)[0].strip() or b"0", 8)
    except ValueError:
        raise PolyplinkError(f"{path} is no tar archive, or is damaged", _MEND) from None


def _at_most(size: int, path: Path) -> int:
    PolyplinkError.unless(size <= _LARGEST_NAME, f"{path} has a name of {size} bytes", _MEND)
    return size


def _pax_records(text: bytes, path: Path) -> dict[str, str]:
    """Records of a pax header: `length keyword=value` and a newline, length in bytes of all."""
    records = {}
    while text:
        length, _, rest = text.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(text):
            raise PolyplinkError(f"{path} is damaged (pax header)", _MEND)
        record = rest[: int(length) - len(length) - 2]
        keyword, _, value = record.partition(b"=")
        records[_decode(keyword)] = _decode(value)
        text = text[int(length) :]
    return records


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
