"""One rendered smoke set for all tests of the room."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from polyplink.data.tables import DataSet
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.presets import smoke


@dataclass(frozen=True)
class Made:
    """A written set, and what `simulate` returned and told."""

    out: Path
    data: DataSet
    told: list[tuple[int, int]]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    out = tmp_path_factory.mktemp("simulate") / "smoke"
    told: list[tuple[int, int]] = []
    data = simulate(out, smoke(), 0, workers=1, progress=lambda *step: told.append(step))
    return Made(out, data, told)
