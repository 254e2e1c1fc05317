"""A rendered set of two procedures, shared by the tests of the simulator."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from polyplink.data.tables import DataSet
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.presets import smoke

PRESET = replace(smoke(), polyps=(("001-001", 1), ("001-009", 2)), fullest=0.9)


@dataclass(frozen=True)
class SmokeSet:
    """A written set, what `simulate` returned, and its calls of `progress`."""

    out: Path
    data: DataSet
    progress_calls: list[tuple[int, int]]


@pytest.fixture(scope="session")
def smoke_set(tmp_path_factory: pytest.TempPathFactory) -> SmokeSet:
    out = tmp_path_factory.mktemp("simulate") / "smoke"
    progress_calls: list[tuple[int, int]] = []
    data = simulate(out, PRESET, 0, workers=1, progress=lambda *step: progress_calls.append(step))
    return SmokeSet(out, data, progress_calls)
