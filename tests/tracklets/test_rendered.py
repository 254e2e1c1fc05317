import dataclasses
from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import read_data
from polyplink.tracklets.crops import FrameCrops, render_crops
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.simulate.data_set import simulate
from polyplink_lab.simulate.presets import smoke
from polyplink_lab.simulate.rendering import SimulatedProcedure

TABLES = dataclasses.replace(
    smoke(), polyps=(("001-001", 1), ("001-009", 1)), frames="none", annotations="none"
)
SETTINGS = PrepareSettings(size=24, stride=24, crop_factor=2.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("rendered") / "set"
    simulate(out, TABLES, 0, workers=1)
    return out


def render(path: Path, folder: Path, name: str, frames: list[FrameCrops]) -> int:
    return render_crops(path, frames, folder, 24, procedure_id=name, device="cpu")


def test_crops_are_written_to_their_rows(folder: Path, tmp_path: Path) -> None:
    windows = np.array([[row, 0, row + 20, 20] for row in range(3)])
    frames = [
        FrameCrops(None, number, 64, 56, np.array(rows), windows[rows])
        for number, rows in ((4, [2]), (9, [0, 1]))
    ]
    assert render(tmp_path / "a.npy", folder, "001-001", frames) == 3
    expected = SimulatedProcedure.open(folder, "001-001").crops([9, 9, 4], windows, 24)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected)


def test_prepare_renders_crops_and_reuses_finished_procedures(folder: Path) -> None:
    progress_calls: list[tuple[int, int]] = []
    first = prepare(folder, SETTINGS, procedures=["001-001"], workers=1)
    both = prepare(folder, SETTINGS, workers=1, progress=lambda *step: progress_calls.append(step))
    total = int(both.tracklets["n_crops"].sum())
    assert progress_calls == [(total, total)]  # one step, because the first procedure is stored
    assert len(first.crops("001-001")) + len(both.crops("001-009")) == total
    data = read_data(folder)
    assert data.detections["image"].null_count() == data.detections.height
    row = both.select(["001-009"]).tracklets.row(0, named=True)
    box = both.detections.row(row["offset"], named=True)
    simulated = SimulatedProcedure.open(folder, "001-009")
    stored = both.crops("001-009")[row["crop_first"]]
    side = round(max(box["w"], box["h"]))
    rendered = simulated.crops(
        [box["frame"]], [[box["x"], box["y"], box["x"] + side, box["y"] + side]], 24
    )
    assert stored.shape == (24, 24, 3)
    assert abs(stored.mean() - rendered.mean()) < 60  # the same place with the same light
    assert stored.std() > 5


def test_a_failed_rendering_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    assert render(tmp_path / "a.npy", folder, "001-001", []) == 0
    assert np.load(tmp_path / "a.npy").shape == (0, 24, 24, 3)
    frame_crops = FrameCrops(None, 0, 64, 56, np.zeros(1, int), np.array([[0, 0, 9, 9]]))
    with pytest.raises(PolyplinkError, match="no procedure '009-009' in the simulation"):
        render(tmp_path / "b.npy", folder, "009-009", [frame_crops])
    assert {path.name for path in tmp_path.iterdir()} == {"a.npy"}
