"""An archive on many machines: shards, workers of Ray, crops that are not kept."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from polyplink.data.tables import read_data
from polyplink.encoders.vectors import read_embeddings
from polyplink.scale.on_ray import shard
from tests.cli.calls import assert_refused, polyplink
from tests.conftest import SampleRun
from tests.kills import contents
from tests.samples import write_procedures

PROCEDURES = 16  # that Ray's workers share when one of them is killed


@pytest.fixture(scope="module")
def whole(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one undisturbed process prepares and embeds."""
    folder = fresh(sample_run, tmp_path_factory.mktemp("whole"))
    ends_well(start(sample_run, folder, "--workers", "1"))
    return folder


def fresh(sample_run: SampleRun, place: Path) -> Path:
    """The data folder without what was prepared of it."""
    ignored = shutil.ignore_patterns("prepared")
    return Path(shutil.copytree(sample_run.data, place / "data", ignore=ignored))


def start(sample_run: SampleRun, folder: Path, *options: str) -> "subprocess.Popen[str]":
    """The verb in a process of its own, with one thread as a worker of Ray has."""
    command = [sys.executable, "-m", "polyplink", "embed", str(sample_run.run), str(folder)]
    return subprocess.Popen(
        [*command, "--device", "cpu", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def ends_well(process: "subprocess.Popen[str]") -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors


@pytest.mark.slow
def test_shards_divide_the_procedures_and_leave_what_one_run_leaves(
    sample_run: SampleRun, whole: Path, tmp_path: Path
) -> None:
    folder = fresh(sample_run, tmp_path)
    names = read_data(folder).part(None)
    divided = [shard(names, f"{number}/2") for number in (1, 2)]
    assert sorted([*divided[0], *divided[1]]) == sorted(names)
    more = [*(f"later {k}" for k in range(20)), *names]
    assert [[name for name in shard(more, f"{k}/2") if name in names] for k in (1, 2)] == divided
    for number, own in enumerate(divided, start=1):
        out = tmp_path / f"{number}.parquet"
        options = ("--shard", f"{number}/2", "--device", "cpu", "--workers", "1", "--out", out)
        result = polyplink("embed", sample_run.run, folder, *options)
        assert f"shard {number}/2: {len(own)} of 5 procedures" in result.stdout, result.stderr
        ids = read_embeddings(out).tracklet_ids
        assert {name.split(":")[0] for name in ids} == set(own)
    assert contents(folder / "prepared") == contents(whole / "prepared")


@pytest.mark.slow
def test_crops_that_are_not_kept_leave_the_same_vectors(
    sample_run: SampleRun, whole: Path, tmp_path: Path
) -> None:
    folder = fresh(sample_run, tmp_path)
    options = ("--device", "cpu", "--workers", "1", "--no-keep-crops")
    for _ in range(2):  # the second finds all vectors
        result = polyplink("embed", sample_run.run, folder, *options)
        assert result.exit_code == 0, result.stderr
        expected = contents(whole / "prepared")
        vectors = {name: data for name, data in expected.items() if not name.endswith(".npy")}
        assert contents(folder / "prepared") == vectors


def test_broken_frames_are_known_where_crops_were_not_kept(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    kept = write_procedures(tmp_path / "kept", procedures=1)
    passing = write_procedures(tmp_path / "passing", procedures=1)
    found = []
    for folder, option in ((kept, "--keep-crops"), (passing, "--no-keep-crops")):
        (folder.parent / "frames" / "001-001" / "8.jpg").write_bytes(b"half")
        options = ("--device", "cpu", "--min-length", "4", option, "--out", tmp_path / "v")
        for _ in range(2):
            result = polyplink("embed", sample_run.run, folder, *options)
            assert result.exit_code == 0, result.stderr
            found.append(read_embeddings(tmp_path / "v"))
    assert "001-001:00000.1" in found[0].tracklet_ids
    for other in found[1:]:
        assert other.tracklet_ids == found[0].tracklet_ids
        assert np.array_equal(other.vectors, found[0].vectors)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shard", "3/2"), "--shard 3/2: no such shard; give I/N, with I from 1 to N"),
        (("--shard", "0/2"), "--shard 0/2: no such shard"),
        (("--shard", "half"), "--shard half: no such shard"),
        (("--address", "127.0.0.1:6379"), "--address is for a Ray cluster"),
        (("--engine", "ray", "--address", "here"), "no Ray cluster at here"),
    ],
)
def test_what_cannot_be_is_one_line(
    sample_run: SampleRun, options: tuple[str, ...], message: str
) -> None:
    assert_refused(polyplink("embed", sample_run.run, sample_run.data, *options), message)


def test_a_cluster_that_is_not_there_is_one_line(sample_run: SampleRun) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        result = polyplink(
            "embed", sample_run.run, sample_run.data, "--engine", "ray", "--address", address
        )
    assert_refused(result, f"no Ray cluster at {address} ")


@pytest.mark.slow
def test_processes_on_one_folder_share_the_work(
    sample_run: SampleRun, whole: Path, tmp_path: Path
) -> None:
    folder = fresh(sample_run, tmp_path)
    other = start(sample_run, folder, "--stride", "8")  # other settings: a folder of its own
    both = [start(sample_run, folder) for _ in range(2)]
    for process in (*both, other):
        ends_well(process)
    found, expected = contents(folder / "prepared"), contents(whole / "prepared")
    assert {name: data for name, data in found.items() if name in expected} == expected
    assert len(found) == 2 * len(expected)


@pytest.mark.slow
def test_a_killed_worker_of_ray_loses_nothing(sample_run: SampleRun, tmp_path: Path) -> None:
    """Killed while it works: some procedures are written, and others are not."""
    many, kills = tmp_path / "many", 10 if os.environ.get("KILLS") == "1" else 1
    pristine = write_procedures(many, procedures=PROCEDURES, views=8)
    whole = Path(shutil.copytree(pristine, tmp_path / "whole"))
    ends_well(start(sample_run, whole, "--workers", "1"))
    rng = random.Random(os.getpid())
    for number in range(kills):
        folder = Path(shutil.copytree(pristine, tmp_path / f"{number}"))
        workers, after = 2 + number % 2, rng.randrange(1, PROCEDURES - 4)
        process = start(sample_run, folder, "--engine", "ray", "--workers", str(workers))
        while written(folder) < after and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        worker = rng.choice(ray_workers(process.pid) or [0])
        before = written(folder)
        assert worker, process.communicate()
        os.kill(worker, signal.SIGKILL)
        assert 1 <= before < PROCEDURES
        ends_well(process)
        assert contents(folder / "prepared") == contents(whole / "prepared")
        shutil.rmtree(folder)
        print(f"kill {number + 1}: one of {workers} workers, {before} of {PROCEDURES} written")


def written(folder: Path) -> int:
    """Procedures whose vectors are there."""
    return len([*folder.glob("prepared/*/vectors/*/*.parquet")])


def ray_workers(driver: int) -> list[int]:
    """Processes of Ray's actors that descend from a process."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(path.name)] = (path / "cmdline").read_bytes()

    def descends(pid: int) -> bool:
        return pid == driver or (pid in parents and descends(parents[pid]))

    return [pid for pid, name in names.items() if b"MapWorker" in name and descends(pid)]


@pytest.mark.slow
def test_a_procedure_that_vanished_costs_itself_alone(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    folder = write_procedures(tmp_path, procedures=3)
    shutil.rmtree(tmp_path / "frames" / "001-002")
    process = start(sample_run, folder, "--engine", "ray")
    _, errors = process.communicate()
    assert process.returncode == 2, errors
    assert "001-002/0.jpg is missing; correct `source` in procedures" in errors
    assert {path.name[:7] for path in folder.glob("prepared/*/vectors/*/*.parquet")} == {
        "001-001",
        "001-003",
    }
