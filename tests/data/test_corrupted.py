"""Spoilt files of every format: imported with what is wrong counted and named, or refused.

Never another exception, and never a loss without a warning. The files and how they are spoilt are
drawn at random, the same ones each time.
"""

import random
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.conversion import convert
from polyplink.data.formats.coco import import_coco
from polyplink.data.formats.csv import import_csv
from polyplink.data.formats.cvat import import_cvat
from polyplink.data.formats.mot import import_mot
from polyplink.data.formats.yolo import import_yolo
from polyplink.data.sets.polyp_size import import_polyp_size
from polyplink.data.tables import TABLES, DataSet, Imported
from tests.data.public_sets import SETS, picture
from tests.data.sample_sets import HEIGHT, WIDTH, scored_set

Read = Callable[[Path], Imported]

TIMES = 10  # files spoilt of each format
PUBLIC = ("real-colon", "ldpolyp", "sun", "polypsset", "polyp-size")
BOXES = ("coco", "mot", "yolo", "cvat", "csv")
# These take records away whole. The public sets say of every frame or polyp that it is there;
# the formats of boxes alone do not, and nothing can tell that there were more.
WHOLE_RECORDS = ("cut", "drop", "blot", "delete", "folder")


def write_every_format(root: Path) -> Mapping[str, Read]:
    """Write a small set in every format, into the folder of the format's name.

    Returns:
        See `readers`.
    """
    for name, public in SETS.items():
        data = public.small()
        frames = None if name == "real-colon" else picture(data)
        public.write(data, root / name, frames=frames)
    for name in BOXES:
        convert(scored_set(), name, root / name)
    return readers()


def readers() -> Mapping[str, Read]:
    """Format -> its importer, given all that it needs beside the folder."""
    return {
        **{name: public.read for name, public in SETS.items()},
        "polyp-size": import_polyp_size,  # whole frames: a lost row of boxes.csv is lost silently
        "coco": import_coco,
        "mot": import_mot,
        "yolo": partial(import_yolo, size=(WIDTH, HEIGHT)),
        "cvat": import_cvat,
        "csv": import_csv,
    }


def odd_number(data: bytes, rng: random.Random) -> bytes:
    """One number of a text becomes one that no box or frame can have."""
    found = list(re.finditer(rb"\d+(?:\.\d+)?", data))
    if not found:
        return data
    place = rng.choice(found)
    odd = rng.choice([b"nan", b"-7", b"1e400", b"99999999999999999999", b"inf", b"", b"0x1F", b"x"])
    return data[: place.start()] + odd + data[place.end() :]


def flip(data: bytes, rng: random.Random) -> bytes:
    spoilt = bytearray(data)
    for _ in range(rng.randrange(1, 4) if data else 0):
        spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
    return bytes(spoilt)


def repeat_line(data: bytes, rng: random.Random, times: int) -> bytes:
    lines = data.splitlines(keepends=True)
    row = rng.randrange(len(lines)) if lines else 0
    return b"".join(lines[:row] + times * lines[row : row + 1] + lines[row + 1 :])


CORRUPTIONS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": lambda data, rng: data[: rng.randrange(len(data) + 1)],
    "flip": flip,
    "number": odd_number,
    "double": partial(repeat_line, times=2),
    "drop": partial(repeat_line, times=0),
    "encode": lambda data, rng: data.decode("latin-1").encode(rng.choice(["utf-16", "utf-32-be"])),
    "blot": lambda _, rng: rng.choice(
        [b"", b"\0" * 64, b"\xff\xfe\xfd", b"[]", b"{}", b"<a/>", b"\n\n"]
    ),
}


def corrupt(folder: Path, rng: random.Random) -> tuple[str, Path]:
    """Spoil one file below a folder: by `SPOIL`, or gone, or a folder in its place.

    Returns:
        How, and which file.
    """
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    how = rng.choice([*CORRUPTIONS, "delete", "folder"])
    if how in CORRUPTIONS:
        path.write_bytes(CORRUPTIONS[how](path.read_bytes(), rng))
        return how, path
    path.unlink()
    if how == "folder":
        path.mkdir()
    return how, path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Read]]:
    root = tmp_path_factory.mktemp("written")
    return root, write_every_format(root)


def lost(before: DataSet, after: DataSet) -> bool:
    """Whether there are fewer rows in one of the tables."""
    return any(getattr(after, name).height < getattr(before, name).height for name in TABLES)


def read_or_refusal(read: Read, folder: Path) -> Imported | PolyplinkError:
    """What is read, or the error for users; any other exception goes on."""
    try:
        return read(folder)
    except PolyplinkError as error:
        return error


@pytest.mark.parametrize("name", [*PUBLIC, *BOXES])
def test_spoilt_files_are_told_or_refused(
    written: tuple[Path, Mapping[str, Read]], name: str, tmp_path: Path
) -> None:
    root, readers = written
    clean = readers[name](root / name)
    refused = told = 0
    for seed in range(TIMES):
        rng = random.Random(f"{name} {seed}")
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(root / name, folder)
        how, path = corrupt(folder, rng)
        after = read_or_refusal(readers[name], folder)
        if isinstance(after, PolyplinkError):
            refused += 1
            assert after.what
            assert after.hint
            assert "\n" not in str(after)
            continue
        new = set(after.warnings) - set(clean.warnings)
        told += bool(new)
        if lost(clean.data, after.data) and not (name in BOXES and how in WHOLE_RECORDS):
            assert new, f"{path} ({how}): a loss that nobody is told of"
    assert refused + told >= TIMES // 4  # the rest fell on blanks, or on numbers that may be so
