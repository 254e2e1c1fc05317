"""Spoilt files of every format: imported with what is wrong counted and named, or refused.

Never another exception, and never a loss that nobody is told of. The files and how they are
spoilt are drawn at random, the same ones each time.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import TABLES, DataSet, Imported
from tests.data.corrupted import SPOIL, Read, copy, spoil, write_every_format

TIMES = 15  # files spoilt of each format
PUBLIC = ("real-colon", "ldpolyp", "sun", "polypsset", "polyp-size")
BOXES = ("coco", "mot", "yolo", "cvat", "csv")
# These take records away whole. The public sets say of every frame or polyp that it is there;
# the formats of boxes alone do not, and nothing can tell that there were more.
WHOLE_RECORDS = ("cut", "drop", "blot", "delete", "folder")


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
        folder = copy(root / name, tmp_path / name)
        how, path = spoil(folder, rng)
        after = read_or_refusal(readers[name], folder)
        if isinstance(after, PolyplinkError):
            refused += 1
            assert after.what
            assert after.mend
            assert "\n" not in str(after)
            continue
        new = set(after.warnings) - set(clean.warnings)
        told += bool(new)
        if lost(clean.data, after.data) and not (name in BOXES and how in WHOLE_RECORDS):
            assert new, f"{path} ({how}): a loss that nobody is told of"
    assert refused + told >= TIMES // 4  # the rest fell on blanks, or on numbers that may be so


@pytest.mark.parametrize("how", list(SPOIL))
def test_every_way_to_spoil_changes_bytes(how: str) -> None:
    data = b"procedure_id,frame,x\na,0,12.5\nb,1,13.5\n"
    spoilt = [SPOIL[how](data, random.Random(seed)) for seed in range(8)]
    assert any(each != data for each in spoilt)
