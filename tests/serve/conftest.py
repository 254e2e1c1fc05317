"""A counted folder, for tests of its review."""

from pathlib import Path

import pytest

from polyplink.serve.desk import Desk


@pytest.fixture(scope="session")
def counted_folder(run_folder: Path) -> Path:
    """A folder as `run` writes it: five procedures of two polyps and six tracklets each."""
    return run_folder


@pytest.fixture
def desk(counted_folder: Path) -> Desk:
    """The counted folder, opened without corrections."""
    (counted_folder / "count" / "corrections.jsonl").unlink(missing_ok=True)
    return Desk(counted_folder, reviewer="Dr. Rossi")
