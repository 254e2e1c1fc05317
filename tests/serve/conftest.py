"""A counted folder for the tests of its review."""

from pathlib import Path

import pytest

from polyplink.app.count import CountRequest, count
from polyplink.serve import Desk
from tests.conftest import Made


@pytest.fixture(scope="session")
def counted(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `run` leaves: five procedures of two polyps and six tracklets each."""
    out = tmp_path_factory.mktemp("reviewed")
    count(CountRequest(made.run, made.data, out / "count", device="cpu"))
    return out


@pytest.fixture
def desk(counted: Path) -> Desk:
    """The folder, opened without corrections."""
    (counted / "count" / "corrections.jsonl").unlink(missing_ok=True)
    return Desk(counted, reviewer="Dr. Rossi")
