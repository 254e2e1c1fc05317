"""Corrupted files of every format are imported with warnings, or refused.

There is no other exception, and no loss without a warning. Files and corruptions are random, with
fixed seeds.
"""

import random
import shutil
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.tables import TABLES, DataSet, Imported
from tests.data.every_format import READERS, Read, write_format
from tests.data.sample_sets import BOX_IMPORTERS
from tests.mutations import CORRUPTIONS

FILES_PER_FORMAT = 3
# These remove complete records. The public sets list every frame or polyp; the box formats do not,
# so that their losses cannot be detected.
RECORD_LOSSES = ("cut", "drop", "blot", "delete", "folder")


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


def has_fewer_rows(before: DataSet, after: DataSet) -> bool:
    """Whether one of the tables has fewer rows."""
    return any(getattr(after, name).height < getattr(before, name).height for name in TABLES)


def read_or_refusal(read: Read, folder: Path) -> Imported | PolyplinkError:
    """The imported data, or the error for users; other exceptions are raised."""
    try:
        return read(folder)
    except PolyplinkError as error:
        return error


@pytest.mark.parametrize("name", READERS)
def test_corrupted_files_are_imported_with_warnings_or_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    clean = READERS[name](write_format(name, folder))
    refused = warned = 0
    for seed in range(FILES_PER_FORMAT):
        rng = random.Random(f"{name} {seed}")
        shutil.rmtree(folder)
        write_format(name, folder)
        kind, path = corrupt(folder, rng)
        outcome = read_or_refusal(READERS[name], folder)
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
