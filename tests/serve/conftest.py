"""A counted folder for the tests of its review."""

from pathlib import Path

import pytest

from polyplink.serve.desk import Desk


@pytest.fixture(scope="session")
def counted(run_folder: Path) -> Path:
    """The folder that `run` writes: five procedures of two polyps and six tracklets each."""
    return run_folder


@pytest.fixture
def desk(counted: Path) -> Desk:
    """The counted folder, opened without corrections."""
    (counted / "count" / "corrections.jsonl").unlink(missing_ok=True)
    return Desk(counted, reviewer="Dr. Rossi")
