"""Corrupted files of every format are imported with warnings, or refused.

There is no other exception, and no loss without a warning. Files and corruptions are random, with
fixed seeds.
"""

import random
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.conversion import convert
from polyplink.data.formats.yolo import import_yolo
from polyplink.data.sets.polyp_size import import_polyp_size
from polyplink.data.tables import TABLES, DataSet, Imported
from tests.data.public_sets import SETS, picture
from tests.data.sample_sets import BOX_IMPORTERS, HEIGHT, WIDTH, scored_set

Read = Callable[[Path], Imported]

FILES_PER_FORMAT = 3
PUBLIC_FORMATS = ("real-colon", "ldpolyp", "sun", "polypsset", "polyp-size")
# These remove complete records. The public sets list every frame or polyp; the box formats do not,
# so that their losses cannot be detected.
RECORD_LOSSES = ("cut", "drop", "blot", "delete", "folder")


def write_every_format(root: Path) -> Mapping[str, Read]:
    """Write a small set in every format, into a folder named after the format.

    Returns:
        See `readers`.
    """
    for name, public in SETS.items():
        data = public.small()
        frames = None if name == "real-colon" else picture(data)
        public.write(data, root / name, frames=frames)
    for name in BOX_IMPORTERS:
        convert(scored_set(), name, root / name)
    return readers()


def readers() -> Mapping[str, Read]:
    """Format -> its importer, with all arguments except the folder."""
    return {
        **{name: public.read for name, public in SETS.items()},
        "polyp-size": import_polyp_size,  # without boxes.csv, which may lose a row silently
        **BOX_IMPORTERS,
        "yolo": partial(import_yolo, size=(WIDTH, HEIGHT)),
    }


def invalid_number(data: bytes, rng: random.Random) -> bytes:
    """Replace one number of a text by one that is invalid for boxes and frames."""
    numbers = list(re.finditer(rb"\d+(?:\.\d+)?", data))
    if not numbers:
        return data
    number = rng.choice(numbers)
    invalid = rng.choice(
        [b"nan", b"-7", b"1e400", b"99999999999999999999", b"inf", b"", b"0x1F", b"x"]
    )
    return data[: number.start()] + invalid + data[number.end() :]


def flip(data: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.randrange(1, 4) if data else 0):
        flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    return bytes(flipped)


def repeat_line(data: bytes, rng: random.Random, times: int) -> bytes:
    lines = data.splitlines(keepends=True)
    row = rng.randrange(len(lines)) if lines else 0
    return b"".join(lines[:row] + times * lines[row : row + 1] + lines[row + 1 :])


CORRUPTIONS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": lambda data, rng: data[: rng.randrange(len(data) + 1)],
    "flip": flip,
    "number": invalid_number,
    "double": partial(repeat_line, times=2),
    "drop": partial(repeat_line, times=0),
    "encode": lambda data, rng: data.decode("latin-1").encode(rng.choice(["utf-16", "utf-32-be"])),
    "blot": lambda _, rng: rng.choice(
        [b"", b"\0" * 64, b"\xff\xfe\xfd", b"[]", b"{}", b"<a/>", b"\n\n"]
    ),
}


def corrupt(folder: Path, rng: random.Random) -> tuple[str, Path]:
    """Corrupt one file below a folder: by `CORRUPTIONS`, removed, or replaced by a folder.

    Returns:
        The kind of corruption, and the file.
    """
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    kind = rng.choice([*CORRUPTIONS, "delete", "folder"])
    if kind in CORRUPTIONS:
        path.write_bytes(CORRUPTIONS[kind](path.read_bytes(), rng))
        return kind, path
    path.unlink()
    if kind == "folder":
        path.mkdir()
    return kind, path


@pytest.fixture(scope="module")
def written_formats(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Read]]:
    root = tmp_path_factory.mktemp("written")
    return root, write_every_format(root)


def has_fewer_rows(before: DataSet, after: DataSet) -> bool:
    """Whether one of the tables has fewer rows."""
    return any(getattr(after, name).height < getattr(before, name).height for name in TABLES)


def read_or_refusal(read: Read, folder: Path) -> Imported | PolyplinkError:
    """The imported data, or the error for users; other exceptions are raised."""
    try:
        return read(folder)
    except PolyplinkError as error:
        return error


@pytest.mark.parametrize("name", [*PUBLIC_FORMATS, *BOX_IMPORTERS])
def test_corrupted_files_are_imported_with_warnings_or_refused(
    written_formats: tuple[Path, Mapping[str, Read]], name: str, tmp_path: Path
) -> None:
    root, readers = written_formats
    clean = readers[name](root / name)
    refused = warned = 0
    for seed in range(FILES_PER_FORMAT):
        rng = random.Random(f"{name} {seed}")
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(root / name, folder)
        kind, path = corrupt(folder, rng)
        outcome = read_or_refusal(readers[name], folder)
        if isinstance(outcome, PolyplinkError):
            refused += 1
            assert outcome.what
            assert outcome.hint
            assert "\n" not in str(outcome)
            continue
        assert all(isinstance(warning, Message) for warning in outcome.warnings)  # translated
        new = set(outcome.lines) - set(clean.lines)
        warned += bool(new)
        if has_fewer_rows(clean.data, outcome.data) and not (
            name in BOX_IMPORTERS and kind in RECORD_LOSSES
        ):
            assert new, f"{path} ({kind}): a loss without a warning"
    # The others hit whitespace or gave valid numbers.
    assert refused + warned > 0
