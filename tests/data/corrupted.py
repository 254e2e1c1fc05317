"""Small sets in every format, and ways to spoil their files."""

import random
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from polyplink.data import (
    Imported,
    import_coco,
    import_csv,
    import_cvat,
    import_mot,
    import_polyp_size,
    import_yolo,
    write_coco,
    write_csv,
    write_cvat,
    write_mot,
    write_yolo,
)
from tests.data.box_sets import seen_set
from tests.data.made_sets import HEIGHT, WIDTH
from tests.data.public_sets import SETS, picture

Read = Callable[[Path], Imported]


def write_every_format(root: Path) -> Mapping[str, Read]:
    """Write a small set in every format, into the folder of the format's name.

    Returns:
        Format -> its importer, given all that it needs beside the folder.
    """
    size = (WIDTH, HEIGHT)
    for name, public in SETS.items():
        data = public.small()
        frames = None if name == "real-colon" else picture(data)
        public.write(data, root / name, frames=frames)
    for name, write in {"coco": write_coco, "yolo": write_yolo, "cvat": write_cvat}.items():
        write(seen_set(), root / name)
    write_mot(seen_set(), root / "mot")
    write_csv(seen_set(), root / "csv")
    return {
        **{name: public.read for name, public in SETS.items()},
        "polyp-size": import_polyp_size,  # whole frames: a lost row of boxes.csv is lost silently
        "coco": import_coco,
        "mot": import_mot,
        "yolo": partial(import_yolo, size=size),
        "cvat": import_cvat,
        "csv": import_csv,
    }


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    spoilt = bytearray(data)
    for _ in range(rng.randrange(1, 4) if data else 0):
        spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
    return bytes(spoilt)


def _number(data: bytes, rng: random.Random) -> bytes:
    """One number of a text becomes one that no box or frame can have."""
    found = list(re.finditer(rb"\d+(?:\.\d+)?", data))
    if not found:
        return data
    place = rng.choice(found)
    odd = rng.choice([b"nan", b"-7", b"1e400", b"99999999999999999999", b"inf", b"", b"0x1F", b"x"])
    return data[: place.start()] + odd + data[place.end() :]


def _double(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    row = rng.randrange(len(lines)) if lines else 0
    return b"".join(lines[: row + 1] + lines[row:])


def _drop(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    row = rng.randrange(len(lines)) if lines else 0
    return b"".join(lines[:row] + lines[row + 1 :])


def _encode(data: bytes, rng: random.Random) -> bytes:
    return data.decode("latin-1").encode(rng.choice(["utf-16", "utf-32-be"]))


def _blot(data: bytes, rng: random.Random) -> bytes:
    del data
    return rng.choice([b"", b"\0" * 64, b"\xff\xfe\xfd", b"[]", b"{}", b"<a/>", b"\n\n"])


SPOIL: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": _cut,
    "flip": _flip,
    "number": _number,
    "double": _double,
    "drop": _drop,
    "encode": _encode,
    "blot": _blot,
}


def spoil(folder: Path, rng: random.Random) -> tuple[str, Path]:
    """Spoil one file below a folder: by `SPOIL`, or gone, or a folder in its place.

    Returns:
        How, and which file.
    """
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    how = rng.choice([*SPOIL, "delete", "folder"])
    if how in SPOIL:
        path.write_bytes(SPOIL[how](path.read_bytes(), rng))
        return how, path
    path.unlink()
    if how == "folder":
        path.mkdir()
    return how, path


def copy(folder: Path, to: Path) -> Path:
    """A fresh copy of a folder."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(folder, to))
