"""Embedding on several machines: shards, Ray workers, crops that are not stored."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from polyplink import embed_data
from polyplink.data.tables import read_data
from polyplink.encoders.encode import read_embeddings
from polyplink.scale.on_ray import Work, shard
from tests.cli.calls import polyplink, succeed
from tests.conftest import SampleRun
from tests.kills import contents
from tests.samples import write_procedures

PROCEDURES = 16  # shared by Ray's workers when one of them is killed


@pytest.fixture(scope="module")
def reference(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data folder prepared and embedded by one process."""
    folder = copy_without_prepared(sample_run, tmp_path_factory.mktemp("whole"))
    assert_succeeds(start_embed(sample_run, folder, "--workers", "1"))
    return folder


def copy_without_prepared(sample_run: SampleRun, parent: Path) -> Path:
    """A copy of the data folder without prepared files."""
    ignored = shutil.ignore_patterns("prepared")
    return Path(shutil.copytree(sample_run.data, parent / "data", ignore=ignored))


def start_embed(sample_run: SampleRun, data: Path, *options: str) -> "subprocess.Popen[str]":
    """Start `embed` in a process with one thread, like a Ray worker."""
    command = [sys.executable, "-m", "polyplink", "embed", str(sample_run.run), str(data)]
    return subprocess.Popen(
        [*command, "--device", "cpu", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def assert_succeeds(process: "subprocess.Popen[str]") -> str:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


@pytest.mark.slow
def test_shards_divide_the_procedures_and_write_the_files_of_one_run(
    sample_run: SampleRun, reference: Path, tmp_path: Path
) -> None:
    folder = copy_without_prepared(sample_run, tmp_path)
    names = read_data(folder).part(None)
    shards = [shard(names, f"{number}/2") for number in (1, 2)]
    assert sorted([*shards[0], *shards[1]]) == sorted(names)
    more_names = [*(f"later {k}" for k in range(20)), *names]
    assert [
        [name for name in shard(more_names, f"{k}/2") if name in names] for k in (1, 2)
    ] == shards
    for number, shard_names in enumerate(shards, start=1):
        out = tmp_path / f"{number}.parquet"
        options = ("--shard", f"{number}/2", "--device", "cpu", "--workers", "1", "--out", out)
        result = polyplink("embed", sample_run.run, folder, *options)
        assert f"shard {number}/2: {len(shard_names)} of 5 procedures" in result.stdout, (
            result.stderr
        )
        ids = read_embeddings(out).tracklet_ids
        assert {name.split(":")[0] for name in ids} == set(shard_names)
    assert contents(folder / "prepared") == contents(reference / "prepared")
    # A shard without a procedure has a table of the same width.
    width, out = read_embeddings(out).vectors.shape[1], tmp_path / "empty.parquet"
    empty = next(f"{k}/39" for k in range(1, 40) if not shard(names, f"{k}/39"))
    succeed("embed", sample_run.run, folder, "--shard", empty, "--device", "cpu", "--out", out)
    assert read_embeddings(out).vectors.shape == (0, width)


def test_vectors_and_broken_frames_are_the_same_without_stored_crops(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    with_crops = write_procedures(tmp_path / "kept", procedures=1, polyps=1, views=2)
    without_crops = write_procedures(tmp_path / "passing", procedures=1, polyps=1, views=2)
    embeddings = []
    for folder, option in ((with_crops, "--keep-crops"), (without_crops, "--no-keep-crops")):
        (folder.parent / "frames" / "001-001" / "8.jpg").write_bytes(b"half")
        options = ("--device", "cpu", "--min-length", "4", option, "--out", tmp_path / "v")
        for _ in range(2):
            succeed("embed", sample_run.run, folder, *options)
            embeddings.append(read_embeddings(tmp_path / "v"))
    assert list(with_crops.rglob("*.npy"))
    assert not list(without_crops.rglob("*.npy"))
    assert "001-001:00000.1" in embeddings[0].tracklet_ids
    for others in embeddings[1:]:
        assert others.tracklet_ids == embeddings[0].tracklet_ids
        assert np.array_equal(others.vectors, embeddings[0].vectors)


def test_the_effect_of_bf16_is_measured_also_if_others_embedded(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(start: Callable[[], Work], procedures: Sequence[str], **_: object) -> list[object]:
        return list(map(start(), procedures))

    monkeypatch.setattr("polyplink.scale.on_ray.on_ray", here)
    folder = copy_without_prepared(sample_run, tmp_path)
    embedded = embed_data(sample_run.run, folder, device="cpu", precision="bf16", engine="ray")
    assert set(embedded.json["mAP"]) == {"float32", "bf16"}


@pytest.mark.slow
def test_processes_on_one_folder_share_the_work(
    sample_run: SampleRun, reference: Path, tmp_path: Path
) -> None:
    folder = copy_without_prepared(sample_run, tmp_path)
    # Other settings use a separate folder.
    other_settings = start_embed(sample_run, folder, "--stride", "8")
    processes = [start_embed(sample_run, folder) for _ in range(2)]
    for process in (*processes, other_settings):
        assert_succeeds(process)
    written, expected = contents(folder / "prepared"), contents(reference / "prepared")
    assert {name: data for name, data in written.items() if name in expected} == expected
    assert len(written) == 2 * len(expected)


@pytest.mark.slow
def test_a_killed_ray_worker_loses_no_procedure(sample_run: SampleRun, tmp_path: Path) -> None:
    """The worker is killed after some procedures were written, and before the others."""
    root, kills = tmp_path / "many", 10 if os.environ.get("KILLS") == "1" else 1
    unprepared = write_procedures(root, procedures=PROCEDURES, views=8)
    reference = Path(shutil.copytree(unprepared, tmp_path / "whole"))
    assert_succeeds(start_embed(sample_run, reference, "--workers", "1"))
    rng = random.Random(os.getpid())
    for k in range(kills):
        folder = Path(shutil.copytree(unprepared, tmp_path / f"{k}"))
        workers, threshold = 2 + k % 2, rng.randrange(1, PROCEDURES - 4)
        options = ("--engine", "ray", "--workers", str(workers), "--json")
        process = start_embed(sample_run, folder, *options)
        while n_written(folder) < threshold and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        worker = rng.choice(ray_workers(process.pid) or [0])
        n_before = n_written(folder)
        assert worker, process.communicate()
        os.kill(worker, signal.SIGKILL)
        assert 1 <= n_before < PROCEDURES
        assert "tracklets" in json.loads(assert_succeeds(process))  # nothing of Ray's is printed
        assert contents(folder / "prepared") == contents(reference / "prepared")
        shutil.rmtree(folder)
        print(f"kill {k + 1}: one of {workers} workers, {n_before} of {PROCEDURES} written")


def n_written(folder: Path) -> int:
    """Number of procedures with stored vectors."""
    return len([*folder.glob("prepared/*/vectors/*/*.parquet")])


def ray_workers(driver: int) -> list[int]:
    """Ids of the Ray actor processes that descend from a process."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(path.name)] = (path / "cmdline").read_bytes()

    def descends(pid: int) -> bool:
        return pid == driver or (pid in parents and descends(parents[pid]))

    return [pid for pid, name in names.items() if b"MapWorker" in name and descends(pid)]


@pytest.mark.slow
def test_a_missing_procedure_does_not_stop_the_others(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    folder = write_procedures(tmp_path, procedures=3)
    shutil.rmtree(tmp_path / "frames" / "001-002")
    process = start_embed(sample_run, folder, "--engine", "ray")
    _, errors = process.communicate()
    assert process.returncode == 2, errors
    assert "001-002/0.jpg is missing; correct `source` in procedures" in errors
    assert {path.name[:7] for path in folder.glob("prepared/*/vectors/*/*.parquet")} == {
        "001-001",
        "001-003",
    }
