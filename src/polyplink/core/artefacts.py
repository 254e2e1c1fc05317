"""Artefacts: written once and atomically, keyed by content and settings.

Expensive results are written under a temporary name in the same folder and renamed when complete,
so that a killed run leaves either the whole artefact or nothing. The key is a hash of the inputs
and settings.
"""

import dataclasses
import errno
import glob
import hashlib
import importlib
import json
import os
import platform
import re
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from polyplink.core.errors import PolyplinkError, first_line

T = TypeVar("T")
KEY_DIGITS = 16  # 64 bits: no two artefacts of one user will collide


# Metadata of a field that was added to a stored record: it is left out while it has its default, so
# that records and keys are those of earlier versions.
ADDED_LATER = {"added_later": True}


def to_plain(value: Any) -> Any:
    """Turn dataclasses, paths, tuples and sets into JSON types, recursively.

    Fields with the metadata `ADDED_LATER` are left out while they have their default.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {
            f.name: to_plain(content)
            for f, content in fields
            if not (f.metadata.get("added_later") and content == f.default)
        }
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted(to_plain(v) for v in value)
    return str(value) if isinstance(value, Path) else value


def from_plain(kind: type[T], value: Any) -> T:
    """The dataclass that `to_plain` turned into `value`, with its types checked.

    Raises:
        pydantic.ValidationError: If a field is missing or of another type, or is unknown and the
            dataclass forbids this; else unknown fields are ignored.
    """
    key: Any = kind
    read: T = _reader(key).validate_python(value)
    return read


def read_plain(kind: type[T], value: Any, problem: str, hint: str) -> T:
    """As `from_plain`, of a value that a file holds: one that does not fit is a user error.

    Args:
        kind: The dataclass.
        value: The value.
        problem: What a value that does not fit means, for the message; the field follows it.
        hint: How to fix the file.

    Raises:
        PolyplinkError: Where `from_plain` raises an error.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - slow

    try:
        return from_plain(kind, value)
    except ValidationError as error:
        first = error.errors()[0]
        reason = ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
        raise PolyplinkError(f"{problem} ({reason})", hint) from None


@cache
def _reader(kind: type) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - slow; so is making one, hence the cache

    return TypeAdapter(kind)


def content_key(*parts: Any) -> str:
    """Hash settings and other keys into a short name.

    Args:
        parts: Anything that `to_plain` turns into JSON; the order of mappings does not matter.

    Returns:
        16 hexadecimal digits of the SHA-256 of the canonical JSON.
    """
    text = json.dumps([to_plain(p) for p in parts], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def file_key(path: Path) -> str:
    """SHA-256 of a file's bytes (64 hexadecimal digits), read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_state(path: str | Path) -> list[int]:
    """Size (bytes) and time of the last change (ns) of a file; empty if it cannot be read."""
    try:
        state = os.stat(path)  # noqa: PTH116 - no path object for each of many files
    except OSError:
        return []
    return [state.st_size, state.st_mtime_ns]


def _lives(pid: int) -> bool:
    """Whether a process is running on this machine, under any user."""
    if sys.platform == "win32":  # where signal 0 is Ctrl-C
        ctypes: Any = importlib.import_module("ctypes")
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = kernel.OpenProcess(0x0010_0000, False, pid)  # the right to wait for it
        if not handle:
            return bool(ctypes.get_last_error() == 5)  # access denied: another user's process
        ended = kernel.WaitForSingleObject(handle, 0) == 0
        kernel.CloseHandle(handle)
        return not ended
    try:
        os.kill(pid, 0)  # sends no signal, only checks
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _temporary(path: Path) -> Path:
    """A unique hidden name next to `path`; leftovers of killed runs are removed."""
    host = f"{zlib.crc32(platform.node().encode()):08x}"
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{host}-*.part"):
        pid = leftover.name.split("-")[-2]
        if pid.isdecimal() and not _lives(int(pid)):
            remove(leftover)
    return path.with_name(f".{path.name}.{host}-{os.getpid()}-{uuid4().hex[:8]}.part")


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that it holds, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():  # of a read-only disk, even the removal of no file is refused
        path.unlink(missing_ok=True)


def _is_full(error: Exception) -> bool:
    """Whether an error of a library, which has no error number, says that the disk is full."""
    if isinstance(error, PolyplinkError) or getattr(error, "errno", None) is not None:
        return False
    # numpy writes fewer items than it was asked to; polars and safetensors quote the system.
    return re.search(r"^\d+ requested and \d+ written|No space left on", str(error)) is not None


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it to `path` if the block succeeds.

    On any exception, Ctrl-C included, the temporary file is removed and `path` is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        yield temporary
        temporary.replace(path)
    except Exception as error:
        if _is_full(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        # The error of a write names no file, that of a rename the hidden one: name `path`.
        named_path = str(getattr(error, "filename", None) or temporary)
        if isinstance(error, OSError) and named_path.startswith(str(temporary)):
            # A new one, because the names in errors of PyAV cannot be set.
            raise OSError(error.errno, first_line(error), str(path)) from error
        raise
    finally:
        remove(temporary)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path`, with the guarantees of `atomic_file`.

    Raises:
        PolyplinkError: If `path` exists already, or another process makes it in the meantime: an
            artefact is never changed.
    """
    exists_error = PolyplinkError(f"{path} exists already", "choose another folder, or remove it")
    if path.exists():
        raise exists_error
    try:
        with atomic_file(path) as temporary:
            temporary.mkdir()
            yield temporary
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and path.exists():
            raise exists_error from None
        raise


_CHANGE = ".change"  # folder of complete new files that are about to be moved into place
_REMOVED = ".removed"  # ending of an empty file in it: remove the file of the name without it


@contextmanager
def change_folder(folder: Path, optional: Sequence[str] = ()) -> Iterator[Path]:
    """Yield an empty folder for files that are moved into `folder` all together, or not at all.

    When all files are written, one rename makes the change valid; then the files are moved, those
    of subfolders one by one too. If the process is killed before it has moved all of them,
    `finish_change` moves the rest.

    Args:
        folder: Created if absent; files of other names stay.
        optional: Files that are removed if the change does not write them; of a folder, all such
            files in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    change = folder / _CHANGE
    temporary = _temporary(change)
    try:
        temporary.mkdir()
        yield temporary
        for name in optional:
            path = folder / name
            for old in _files_in(path) if path.is_dir() else [path]:
                new = temporary / old.relative_to(folder)
                if not new.exists():
                    new.parent.mkdir(parents=True, exist_ok=True)
                    new.with_name(f"{new.name}{_REMOVED}").touch()
        while temporary.exists():
            finish_change(folder)
            with _tolerate_race():
                temporary.rename(change)
        finish_change(folder)
    except OSError as error:
        if str(error.filename or "").startswith(str(temporary)):
            raise OSError(error.errno, first_line(error), str(folder)) from error
        raise
    finally:
        remove(temporary)


@contextmanager
def _tolerate_race() -> Iterator[None]:
    """Ignore the error if another process that changes the same folder was faster."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY):
            raise


def finish_change(folder: Path) -> None:
    """Finish a valid change that a killed process left; every reader and writer calls it.

    Raises:
        PolyplinkError: If the folder may not be written.
    """
    change = folder / _CHANGE
    if not change.is_dir():
        return
    try:
        files = _files_in(change)
        for marker in [path for path in files if path.name.endswith(_REMOVED)]:
            old_file = folder / marker.relative_to(change)
            with _tolerate_race():
                old_file.with_name(old_file.name.removesuffix(_REMOVED)).unlink(missing_ok=True)
                marker.unlink()
        for file in [path for path in files if not path.name.endswith(_REMOVED)]:
            target = folder / file.relative_to(change)
            target.parent.mkdir(parents=True, exist_ok=True)
            with _tolerate_race():
                file.replace(target)
        # Subfolders, the deepest first: those of `folder` only if they are empty now.
        for subfolder in sorted((p for p in change.rglob("*") if p.is_dir()), reverse=True):
            for emptied in (folder / subfolder.relative_to(change), subfolder):
                with _tolerate_race():
                    emptied.rmdir()
        with _tolerate_race():
            change.rmdir()
    except OSError as error:
        raise PolyplinkError(
            f"{folder} holds a change that was interrupted ({error.strerror})",
            "close programs that have its files open, check that the folder is writable, and "
            "run the command again",
        ) from None


def _files_in(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders."""
    return [path for path in folder.rglob("*") if not path.is_dir()]


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, with a newline at the end."""
    write_text(path, json.dumps(to_plain(value), indent=1) + "\n")


def read_json(path: Path, hint: str = "run the stage that writes it") -> Any:
    """Read JSON; a missing or broken file is a user error.

    Args:
        path: The file.
        hint: How to get the file if it is missing.
    """
    try:
        return parse_json(path.read_bytes(), str(path), "make it again")
    except FileNotFoundError:
        raise PolyplinkError(f"{path} is missing", hint) from None


def parse_json(data: bytes | str, source: str, hint: str) -> Any:
    """Parse JSON, in UTF-8 with a byte order mark or without.

    Args:
        data: The bytes or the text.
        source: The name of the file, for the error.
        hint: How to fix the file.

    Raises:
        PolyplinkError: If the data is not UTF-8 or not JSON, is nested too deeply, or has a number
            of thousands of digits or half of a surrogate pair.
    """
    from pydantic_core import from_json  # noqa: PLC0415 - slow

    try:
        return from_json(data.removeprefix(b"\xef\xbb\xbf") if isinstance(data, bytes) else data)
    except ValueError as error:
        raise PolyplinkError(f"{source} is not valid JSON ({first_line(error)})", hint) from None
