"""A simulated data set on disk: layouts, resumption, and refused folders and settings."""

import dataclasses
import hashlib
import multiprocessing
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import simplejpeg

from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.real_colon import import_real_colon
from polyplink.data.sets.voc import parse_voc
from polyplink.data.tables import read_data
from polyplink_lab.simulate.data_set import Job, simulate, write_archive, write_procedure
from polyplink_lab.simulate.plan import boxes_of, plan_procedure
from polyplink_lab.simulate.presets import (
    WRITINGS,
    SimulationSettings,
    is_simulation,
    key_path,
    preset,
    read_settings,
    smoke,
)
from polyplink_lab.simulate.procedure_specs import procedure_specs
from tests.simulate.conftest import PRESET, SmokeSet

QUICK = dataclasses.replace(
    smoke(),
    polyps=(("001-001", 1), ("001-002", 0), ("001-009", 1), ("001-010", 0)),
    width=16,
    height=16,
    long_views=(1, 1),
    short_views=(0, 0),
    long_frames=(5, 5),
)
ONE = dataclasses.replace(QUICK, polyps=(("001-001", 1),))
TABLES = dataclasses.replace(QUICK, frames="none", annotations="none")
SETTINGS = SimulationSettings(smoke(), 3, "cpu")


def contents(out: Path) -> dict[str, str]:
    """Digests of all files except run.json, which contains times."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


def test_the_folder_has_the_layout_of_real_colon(smoke_set: SmokeSet) -> None:
    assert {path.name for path in smoke_set.out.iterdir()} == {
        *(f"{name}_{kind}" for name, _ in PRESET.polyps for kind in ("frames", "annotations")),
        "video_info.csv",
        "lesion_info.csv",
        "dataset_description.md",
        "run.json",
        "simulation",
    }
    for name, frames in smoke_set.data.procedures.select("procedure_id", "n_frames").rows():
        for kind, ending in (("frames", "jpg"), ("annotations", "xml")):
            names = {path.name for path in (smoke_set.out / f"{name}_{kind}").iterdir()}
            assert names == {f"{name}_{frame}.{ending}" for frame in range(frames)}
    assert "preset smoke, seed 0" in (smoke_set.out / "dataset_description.md").read_text()
    assert read_json(smoke_set.out / "run.json")["seed"] == 0
    assert smoke_set.progress_calls == [(done, 2) for done in range(3)]


def test_importing_the_folder_gives_the_same_data_set(smoke_set: SmokeSet) -> None:
    imported = import_real_colon(smoke_set.out)
    assert imported.warnings == []
    assert imported.data.key == smoke_set.data.key
    assert imported.data.splits == smoke_set.data.splits
    assert set(smoke_set.data.procedures["dataset"]) == {"simulated smoke 0"}


def test_boxes_have_true_identities_and_the_truth_is_stored(smoke_set: SmokeSet) -> None:
    for spec in procedure_specs(PRESET, 0):
        boxes_of_procedure = smoke_set.data.detections.filter(
            pl.col("procedure_id") == spec.procedure_id
        )
        names = [f"{spec.procedure_id}_{k}" for k in range(1, len(spec.polyps) + 1)]
        assert set(boxes_of_procedure["polyp_id"]) == set(names)
        polyps = smoke_set.data.polyps.filter(pl.col("procedure_id") == spec.procedure_id)
        assert polyps["size_mm"].to_list() == [polyp.size_mm for polyp in spec.polyps]
        truth = read_json(smoke_set.out / "simulation" / f"{spec.procedure_id}.json")
        assert truth["procedure"]["n_frames"] == spec.n_frames
        assert [t["size_mm"] for t in truth["traits"]] == polyps["size_mm"].to_list()
        for name, removed_at in zip(names, truth["timeline"]["removed"], strict=True):
            frames = boxes_of_procedure.filter(pl.col("polyp_id") == name)["frame"]
            assert removed_at is None or max(frames) < removed_at


def runs(smoke_set: SmokeSet) -> list[list[pl.DataFrame]]:
    """Runs of boxes in consecutive frames, per polyp."""
    runs_of_polyps = []
    for _, boxes in smoke_set.data.detections.group_by("polyp_id", maintain_order=True):
        gap = (boxes["frame"].diff().fill_null(1) > 1).cum_sum().alias("run")
        runs_of_polyps.append(boxes.with_columns(gap).partition_by("run"))
    return runs_of_polyps


def test_views_of_a_polyp_differ_more_between_looks_than_within(smoke_set: SmokeSet) -> None:
    """Measured by the mean colour."""
    inside, between = [], []
    for polyp_runs in runs(smoke_set):
        long = [run for run in polyp_runs if len(run) >= 30]
        assert len(long) >= 3  # lost and seen again
        means = []
        for run in long:
            colours = []
            for row in run[5:25:5].iter_rows(named=True):
                image = simplejpeg.decode_jpeg((smoke_set.out / row["image"]).read_bytes())
                assert image.shape == (PRESET.height, PRESET.width, 3)
                x, y, w, h = (int(row[k]) for k in "xywh")
                colours.append(image[y : y + h, x : x + w].mean((0, 1)))
            inside.append(np.std(colours, axis=0).mean())
            means.append(np.mean(colours, axis=0))
        between.append(np.std(means, axis=0).mean())
    assert np.mean(between) > max(1.5 * np.mean(inside), 5)


# --- Other layouts --------------------------------------------------------------------------


def test_tables_can_be_read_as_a_data_folder(tmp_path: Path) -> None:
    harder = WRITINGS["tables"](ONE).at_difficulty(0.75)
    data = simulate(tmp_path / "a", harder, 0, workers=1)
    assert read_data(tmp_path / "a").key == data.key
    assert data.detections["image"].null_count() == data.detections.height > 0
    assert set(data.procedures["dataset"]) == {"simulated smoke@0.75 0"}
    assert set(data.procedures["source"]) == {"."}
    assert read_settings(tmp_path / "a").preset == harder
    assert not list((tmp_path / "a").glob("*_frames"))


def test_archives_have_the_members_of_the_folders(tmp_path: Path, smoke_set: SmokeSet) -> None:
    archives = dataclasses.replace(PRESET, frames="none", annotations="archives")
    written = simulate(tmp_path / "archives", archives, 0, workers=1)
    imported = import_real_colon(tmp_path / "archives")
    assert imported.data.key == written.key
    assert not list((tmp_path / "archives").glob("*_frames"))
    path = tmp_path / "archives" / "001-001_annotations.tar.gz"
    with tarfile.open(path) as archive:
        names = archive.getnames()
        frame = archive.extractfile(names[7]).read()  # type: ignore[union-attr]
    folder = smoke_set.out / "001-001_annotations"
    assert names == [f"{folder.name}/001-001_{k}.xml" for k in range(len(names))]
    assert len(names) == len(list(folder.iterdir()))
    assert frame == (folder / "001-001_7.xml").read_bytes()
    before = path.read_bytes()  # an existing archive is kept; the same set gives the same bytes
    path.unlink()
    (tmp_path / "archives" / "run.json").unlink()
    (tmp_path / "archives" / "001-009_annotations.tar.gz").write_bytes(b"kept")
    simulate(tmp_path / "archives", archives, 0, workers=1)
    assert path.read_bytes() == before
    assert (tmp_path / "archives" / "001-009_annotations.tar.gz").read_bytes() == b"kept"


def test_file_names_of_procedure_001_012_have_a_point(tmp_path: Path, smoke_set: SmokeSet) -> None:
    boxes = smoke_set.data.detections.filter(pl.col("procedure_id") == "001-001").head(3)
    path, last = tmp_path / "a.tar.gz", max(boxes["frame"].to_list())
    row = {"procedure_id": "001-012", "n_frames": last + 2, "width": 64, "height": 56}
    write_archive((path, row, boxes))
    with tarfile.open(path) as archive:
        assert archive.getnames()[0] == "001-012_annotations/001-012_0.0.xml"
        member = archive.extractfile(f"001-012_annotations/001-012_{last}.0.xml")
        text = member.read().decode()  # type: ignore[union-attr]
    assert f"<filename>001-012_{last}.0.jpg</filename>" in text
    assert len(parse_voc(text, "last").objects) == boxes.filter(pl.col("frame") == last).height


def test_writings_change_only_frames_and_annotations() -> None:
    for change in WRITINGS.values():
        for name in ("smoke", "small", "real-colon-sim"):
            original, changed = preset(name), change(preset(name))
            as_before = dataclasses.replace(
                changed, frames=original.frames, annotations=original.annotations
            )
            assert as_before == original
    assert WRITINGS["frames"](preset("small")).frames == "boxed"
    assert WRITINGS["frames"](preset("smoke")).frames == "all"


def test_a_set_without_polyps_has_empty_tables(tmp_path: Path) -> None:
    data = simulate(tmp_path, dataclasses.replace(TABLES, polyps=(("001-002", 0),)), 0, workers=1)
    assert data.detections.is_empty()
    assert data.polyps.is_empty()
    assert data.splits == {"negative": ["001-002"]}


# --- Runs that are interrupted, continued or refused ----------------------------------------


def interrupt_at_two(done: int, total: int) -> None:
    if done == 2:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_files_do_not_depend_on_workers_or_interruptions(tmp_path: Path) -> None:
    out = tmp_path / "two"
    with pytest.raises(KeyboardInterrupt):
        simulate(out, QUICK, 0, workers=2, progress=interrupt_at_two)
    assert not multiprocessing.active_children()
    assert not list(out.glob(".*"))
    progress_calls: list[tuple[int, int]] = []
    data = simulate(out, QUICK, 0, workers=1, progress=lambda *step: progress_calls.append(step))
    assert progress_calls[0][0] >= 2
    assert data.key == simulate(tmp_path / "one", QUICK, 0, workers=1).key
    assert contents(out) == contents(tmp_path / "one")


def test_an_interrupted_set_continues(tmp_path: Path) -> None:
    tables = dataclasses.replace(TABLES, polyps=TABLES.polyps[:3])
    progress_calls: list[tuple[int, int]] = []
    with pytest.raises(KeyboardInterrupt):
        simulate(tmp_path / "a", tables, 0, workers=1, progress=interrupt_at_two)
    simulate(
        tmp_path / "a", tables, 0, workers=1, progress=lambda *step: progress_calls.append(step)
    )
    assert progress_calls == [(2, 3), (3, 3)]
    finished = contents(tmp_path / "a")
    (tmp_path / "a" / "simulation" / "001-001.parquet").unlink()
    simulate(tmp_path / "a", tables, 0, workers=1)
    assert contents(tmp_path / "a") == finished
    simulate(tmp_path / "fresh", tables, 0, workers=1)
    assert contents(tmp_path / "fresh") == finished


def test_a_procedure_replaces_leftovers_and_boxed_writes_only_frames_with_a_box(
    tmp_path: Path,
) -> None:
    boxed = dataclasses.replace(ONE, frames="boxed")
    job = Job(tmp_path, boxed, 0, procedure_specs(boxed, 0)[0], "cpu")
    job.frames.mkdir()  # frames without stored truth, left by a killed run
    (job.frames / "old.jpg").touch()
    (tmp_path / ".001-001_frames.123.part").mkdir()
    before = job.done
    write_procedure(job)
    assert (before, job.done) == (False, True)
    assert not list(tmp_path.glob(".*"))
    boxes = pl.read_parquet(tmp_path / "simulation" / "001-001.parquet")
    assert boxes.equals(boxes_of(plan_procedure(boxed, 0, job.spec)))
    assert boxes.height == 5
    names = {path.name for path in job.frames.iterdir()}
    assert names == {f"001-001_{frame}.jpg" for frame in boxes["frame"]}


def test_simulating_a_finished_set_writes_nothing(smoke_set: SmokeSet) -> None:
    before = {path: path.stat().st_mtime_ns for path in smoke_set.out.rglob("*") if path.is_file()}
    repeated = simulate(smoke_set.out, PRESET, 0)
    assert repeated.key == smoke_set.data.key
    after = {path: path.stat().st_mtime_ns for path in smoke_set.out.rglob("*") if path.is_file()}
    assert before == after


def test_a_folder_with_another_simulation_is_refused(tmp_path: Path) -> None:
    assert not is_simulation(tmp_path)
    (tmp_path / "simulation").mkdir()
    (tmp_path / "simulation" / ".key.json.0-1-2.part").touch()  # left by a killed run
    SETTINGS.claim(tmp_path)
    SETTINGS.claim(tmp_path)
    assert is_simulation(tmp_path)
    assert read_settings(tmp_path) == SETTINGS
    for changes in ({"seed": 4}, {"device": "cuda"}, {"preset": smoke().at_difficulty(0.75)}):
        other = dataclasses.replace(SETTINGS, **changes)
        with pytest.raises(
            PolyplinkError, match=r"holds preset smoke, seed 3, difficulty 0.5, .*device cpu"
        ):
            other.claim(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.txt").touch()
    for place in (tmp_path / "mine", tmp_path / "mine" / "mine.txt"):
        with pytest.raises(PolyplinkError, match="holds something else; choose an empty folder"):
            SETTINGS.claim(place)


def test_settings_of_another_version_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    SETTINGS.claim(tmp_path)
    key = read_json(key_path(tmp_path))
    for invalid, message in (
        (key | {"polyplink": "0.0.1"}, r"by polyplink 0\.0\.1, .*; install polyplink 0"),
        (key | {"seed": "often"}, r"key\.json is broken .*; simulate again"),
        (key | {"preset": key["preset"] | {"difficulty": 7}}, "difficulty is 7"),
        ([1], "by polyplink None"),
    ):
        write_json(key_path(tmp_path), invalid)
        with pytest.raises(PolyplinkError, match=message):
            read_settings(tmp_path)
    with pytest.raises(PolyplinkError, match="holds a simulation with a broken key"):
        SETTINGS.claim(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "--seed -1 is below 0; give 0 or more"),
        ({"workers": 0}, "0 workers cannot render; give --workers 1 or more"),
        ({"device": "meta"}, "no device 'meta' here; use --device cpu, cuda or"),
        ({"device": "cuda:99"}, "no device 'cuda:99' here"),
        ({"device": "cuda:"}, "no device 'cuda:' here"),
    ],
)
def test_invalid_settings_are_refused(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        simulate(tmp_path / "a", smoke(), **({"seed": 0} | arguments))
    assert not (tmp_path / "a").exists()
