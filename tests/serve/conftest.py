"""A counted folder, for tests of its review."""

from pathlib import Path

import pytest

from polyplink.serve.desk import Desk


@pytest.fixture(scope="session")
def counted_folder(run_folder: Path) -> Path:
    """A folder as `run` writes it: five procedures of two polyps and six tracklets each."""
    return run_folder


@pytest.fixture
def desk(unreviewed: Path) -> Desk:
    """The counted folder, opened without corrections."""
    return Desk(unreviewed, reviewer="Dr. Rossi")
