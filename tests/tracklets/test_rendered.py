import dataclasses
from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import read_data
from polyplink.simulate import SimulatedProcedure, simulate, smoke
from polyplink.tracklets import PrepareSettings, prepare
from polyplink.tracklets.crops import FrameCrops
from polyplink.tracklets.rendered import Rendering, render, render_all

TABLES = dataclasses.replace(
    smoke(), polyps=(("001-001", 1), ("001-009", 1)), frames="none", annotations="none"
)
SETTINGS = PrepareSettings(size=24, stride=8, crop_factor=2.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("rendered") / "set"
    simulate(out, TABLES, 0, workers=1)
    return out


def frame(number: int, rows: list[int], image: str | None = None) -> FrameCrops:
    crops = np.array([[row, 0, row + 20, 20] for row in rows])
    return FrameCrops(image, number, 64, 56, np.array(rows), crops)


def test_only_crops_without_images_are_rendered_in_the_order_of_their_rows(
    folder: Path, tmp_path: Path
) -> None:
    path, frames = tmp_path / "a.npy", [frame(4, [2]), frame(9, [0, 1])]
    one = Rendering.of(path, folder, "001-001", frames, size=24)
    assert one is not None
    assert one.frames.tolist() == [9, 9, 4]
    assert one.windows[:, 0].tolist() == [0, 1, 2]
    named = [*frames, frame(5, [3], "a.jpg")]
    assert Rendering.of(path, folder, "001-001", named, size=24) is None
    assert Rendering.of(path, tmp_path, "001-001", frames, size=24) is None


def test_prepare_renders_and_goes_on_where_it_stopped(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    first = prepare(folder, SETTINGS, procedures=["001-001"], workers=1)
    both = prepare(folder, SETTINGS, workers=1, progress=lambda *step: told.append(step))
    total = int(both.tracklets["n_crops"].sum())
    assert told == [(total, total)]  # that of the first run was kept
    assert len(first.crops("001-001")) + len(both.crops("001-009")) == total
    data = read_data(folder)
    assert data.detections["image"].null_count() == data.detections.height
    row = both.select(["001-009"]).tracklets.row(0, named=True)
    box = both.detections.row(row["offset"], named=True)
    made = SimulatedProcedure.open(folder, "001-009")
    stored = both.crops("001-009")[row["crop_first"]]
    side = round(max(box["w"], box["h"]))
    near = made.crops([box["frame"]], [[box["x"], box["y"], box["x"] + side, box["y"] + side]], 24)
    assert stored.shape == (24, 24, 3)
    assert abs(stored.mean() - near.mean()) < 60  # the same place in the same light
    assert stored.std() > 5


def test_a_file_is_whole_or_absent(folder: Path, tmp_path: Path) -> None:
    none = Rendering(
        tmp_path / "a.npy", folder, "001-001", np.zeros(0, int), np.zeros((0, 4), int), 24
    )
    assert render(none) == 0
    assert np.load(tmp_path / "a.npy").shape == (0, 24, 24, 3)
    other = dataclasses.replace(
        none, path=tmp_path / "b.npy", procedure_id="009-009", frames=np.zeros(1, int)
    )
    with pytest.raises(PolyplinkError, match="no procedure '009-009' in the simulation"):
        render_all([other], 1, lambda crops: None)
    assert {path.name for path in tmp_path.iterdir()} == {"a.npy"}
