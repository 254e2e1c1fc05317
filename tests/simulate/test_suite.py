import dataclasses
import hashlib
import itertools
import multiprocessing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import simplejpeg

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.data import import_real_colon, read_data
from polyplink.simulate import Preset, simulate, smoke
from polyplink.simulate.cast import procedure_specs
from tests.simulate.conftest import Made

QUICK = dataclasses.replace(
    smoke(),
    polyps=(("001-001", 1), ("001-002", 0), ("001-009", 1), ("001-010", 0)),
    width=16,
    height=16,
    long_views=(1, 1),
    short_views=(0, 0),
    long_frames=(5, 5),
)
TABLES = dataclasses.replace(QUICK, frames="none", annotations="none")


def contents(out: Path) -> dict[str, str]:
    """Digest of every file but run.json, which holds times."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


def tracklets(made: Made) -> dict[str, list[pl.DataFrame]]:
    """Runs of consecutive boxes of every polyp."""
    runs = {}
    for (polyp,), boxes in made.data.detections.group_by("polyp_id", maintain_order=True):
        gap = (boxes["frame"].diff().fill_null(1) > 1).cum_sum().alias("run")
        runs[str(polyp)] = boxes.with_columns(gap).partition_by("run")
    return runs


def iou(a: dict[str, float], b: dict[str, float]) -> float:
    across = min(a["x"] + a["w"], b["x"] + b["w"]) - max(a["x"], b["x"])
    down = min(a["y"] + a["h"], b["y"] + b["h"]) - max(a["y"], b["y"])
    both = max(across, 0) * max(down, 0)
    return both / (a["w"] * a["h"] + b["w"] * b["h"] - both)


def test_the_folder_is_laid_out_as_real_colon(made: Made) -> None:
    assert {path.name for path in made.out.iterdir()} == {
        *(f"{name}_{kind}" for name, _ in smoke().polyps for kind in ("frames", "annotations")),
        "video_info.csv",
        "lesion_info.csv",
        "dataset_description.md",
        "run.json",
        "simulation",
    }
    for name, frames in made.data.procedures.select("procedure_id", "n_frames").rows():
        for kind, ending in (("frames", "jpg"), ("annotations", "xml")):
            names = {path.name for path in (made.out / f"{name}_{kind}").iterdir()}
            assert names == {f"{name}_{frame}.{ending}" for frame in range(frames)}
    text = (made.out / "dataset_description.md").read_text()
    assert "Simulated" in text
    assert "preset smoke, seed 0" in text
    assert read_json(made.out / "run.json")["seed"] == 0


def test_importing_the_folder_gives_the_same_data_set(made: Made) -> None:
    imported = import_real_colon(made.out)
    assert imported.warnings == []
    assert imported.data.key == made.data.key
    assert imported.data.splits == made.data.splits


def test_identities_are_true(made: Made) -> None:
    """Every box's name is that of a polyp of its procedure, whose row is the specification's."""
    for spec in procedure_specs(smoke(), 0):
        own = made.data.detections.filter(pl.col("procedure_id") == spec.procedure_id)
        names = {f"{spec.procedure_id}_{k}" for k in range(1, len(spec.polyps) + 1)}
        assert set(own["polyp_id"]) == names
        polyps = made.data.polyps.filter(pl.col("procedure_id") == spec.procedure_id)
        assert polyps["size_mm"].to_list() == [polyp.size_mm for polyp in spec.polyps]
    assert made.data.detections["polyp_id"].null_count() == 0


def test_no_polyp_is_seen_after_its_removal(made: Made) -> None:
    for spec in procedure_specs(smoke(), 0):
        truth = read_json(made.out / "simulation" / f"{spec.procedure_id}.json")
        for index, gone in enumerate(truth["timeline"]["removed"]):
            own = pl.col("polyp_id") == f"{spec.procedure_id}_{index + 1}"
            frames = made.data.detections.filter(own)["frame"]
            assert gone is None or max(frames) < gone


def test_boxes_lie_inside_their_images(made: Made) -> None:
    boxes = made.data.detections
    assert boxes.select((pl.col("x") >= 0).all(), (pl.col("y") >= 0).all()).row(0) == (True, True)
    assert (boxes["x"] + boxes["w"]).max() <= smoke().width - 1  # type: ignore[operator]
    assert (boxes["y"] + boxes["h"]).max() <= smoke().height - 1  # type: ignore[operator]
    for row in boxes[:: len(boxes) // 10].iter_rows(named=True):
        image = simplejpeg.decode_jpeg((made.out / row["image"]).read_bytes())
        assert image.shape == (smoke().height, smoke().width, 3)


def test_every_polyp_is_lost_and_found_again(made: Made) -> None:
    for runs in tracklets(made).values():
        assert sum(len(run) >= 30 for run in runs) >= 3
        frames = [frame for run in runs for frame in run["frame"]]
        assert len(set(frames)) == len(frames)
        ends = [(run["frame"][0], run["frame"][-1]) for run in runs]
        assert all(b[0] > a[1] + 1 for a, b in itertools.pairwise(ends))


def test_boxes_move_smoothly_in_a_long_look(made: Made) -> None:
    steps = [
        iou(a, b)
        for runs in tracklets(made).values()
        for run in runs
        if len(run) >= 30
        for a, b in itertools.pairwise(run[3:-3].iter_rows(named=True))
    ]
    assert min(steps) >= 0.1
    assert np.quantile(steps, 0.05) > 0.6


def test_looks_differ_from_each_other(made: Made) -> None:
    """Between looks at one polyp, size and mean colour change more than inside a look."""
    inside, between = [], []
    for runs in tracklets(made).values():
        means = []
        for run in (run for run in runs if len(run) >= 30):
            colours = []
            for row in run[5:25:5].iter_rows(named=True):
                image = simplejpeg.decode_jpeg((made.out / row["image"]).read_bytes())
                x, y, w, h = (int(row[k]) for k in "xywh")
                colours.append(image[y : y + h, x : x + w].mean((0, 1)))
            inside.append(np.std(colours, axis=0).mean())
            means.append(np.mean(colours, axis=0))
        between.append(np.std(means, axis=0).mean())
    assert np.mean(between) > 1.5 * np.mean(inside)
    assert np.mean(between) > 5


def interrupt_at_two(done: int, total: int) -> None:
    if done == 2:
        raise KeyboardInterrupt


def test_neither_workers_nor_an_interruption_change_a_byte(tmp_path: Path) -> None:
    out = tmp_path / "two"
    with pytest.raises(KeyboardInterrupt):
        simulate(out, QUICK, 0, workers=2, progress=interrupt_at_two)
    assert not multiprocessing.active_children()
    assert not list(out.glob(".*"))
    data = simulate(out, QUICK, 0, workers=1)
    assert data.key == simulate(tmp_path / "one", QUICK, 0, workers=1).key
    assert contents(out) == contents(tmp_path / "one")


def test_tables_are_a_data_folder_and_archives_are_a_release(tmp_path: Path) -> None:
    tables = simulate(tmp_path / "tables", TABLES, 0, workers=1)
    assert read_data(tmp_path / "tables").key == tables.key
    assert tables.detections["image"].null_count() == tables.detections.height > 0
    archives = dataclasses.replace(TABLES, annotations="archives")
    written = simulate(tmp_path / "archives", archives, 0, workers=1)
    imported = import_real_colon(tmp_path / "archives")
    assert imported.data.key == written.key == tables.key
    assert not list((tmp_path / "archives").glob("*_frames"))


def test_seeds_differ(made: Made, tmp_path: Path) -> None:
    one = dataclasses.replace(QUICK, polyps=(("001-001", 1),))
    keys = {simulate(tmp_path / str(seed), one, seed, workers=1).key for seed in range(2)}
    assert len(keys) == 2


def test_progress_is_told_from_none_to_all(made: Made) -> None:
    assert made.told == [(done, 4) for done in range(5)]


def test_a_finished_set_is_kept(made: Made) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.out.rglob("*.jpg")}
    run = (made.out / "run.json").read_text()
    told: list[tuple[int, int]] = []
    again = simulate(made.out, smoke(), 0, progress=lambda *step: told.append(step))
    assert told == [(4, 4)]
    assert again.key == made.data.key
    assert {path: path.stat().st_mtime_ns for path in made.out.rglob("*.jpg")} == before
    assert (made.out / "run.json").read_text() == run


def test_an_interrupted_set_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        simulate(tmp_path / "set", QUICK, 0, workers=1, progress=interrupt_at_two)
    assert not (tmp_path / "set" / "run.json").exists()
    there = {path.name for path in (tmp_path / "set").glob("*_frames")}
    assert len(there) == 2
    told: list[tuple[int, int]] = []
    simulate(tmp_path / "set", QUICK, 0, workers=1, progress=lambda *step: told.append(step))
    assert told == [(2, 4), (3, 4), (4, 4)]
    simulate(tmp_path / "fresh", QUICK, 0, workers=1)
    assert contents(tmp_path / "set") == contents(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("preset", "seed"), [(QUICK, 1), (dataclasses.replace(QUICK, width=18), 0)]
)
def test_another_set_in_the_folder_is_refused(tmp_path: Path, preset: Preset, seed: int) -> None:
    one = dataclasses.replace(QUICK, polyps=(("001-001", 1),))
    simulate(tmp_path / "set", one, 0, workers=1)
    with pytest.raises(PolyplinkError, match=r"holds preset smoke, seed 0, .*device cpu.*; choose"):
        simulate(tmp_path / "set", preset, seed)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(PolyplinkError, match="holds something else; choose an empty folder"):
        simulate(tmp_path, smoke(), 0)


def test_bad_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="seed -1 is below 0; give a whole number from 0"):
        simulate(tmp_path / "a", smoke(), -1)
    with pytest.raises(PolyplinkError, match="0 workers cannot render; give 1 or more"):
        simulate(tmp_path / "a", smoke(), 0, workers=0)
    with pytest.raises(PolyplinkError, match="no device 'abacus' here"):
        simulate(tmp_path / "a", smoke(), 0, device="abacus")
    assert not (tmp_path / "a").exists()
