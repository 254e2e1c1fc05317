"""A command that is killed at any file event loses nothing and mixes nothing."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.core.artefacts import settle
from polyplink.data.conversion import convert
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.serve.corrections import read_corrections
from tests.cli.labelled_polyps import write_labelled
from tests.cli.test_review import finish_review
from tests.conftest import TINY, SampleRun
from tests.data.sample_sets import scored_set, small_set
from tests.detect.test_onnx import write_model
from tests.kills import Killer, contents, killer, spread

pytestmark = pytest.mark.slow
TRAIN = [word for setting in TINY for word in ("--set", setting)]
MOST = 10**6 if os.environ.get("KILLS") == "1" else 4  # kills of a verb; `make kill` takes all


@pytest.fixture(scope="module")
def kills() -> Iterator[Killer]:
    with killer() as started:
        yield started


@pytest.fixture(scope="module")
def places(
    sample_run: SampleRun, run_folder: Path, kills: Killer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """What commands read.

    Data, weights, a count, a finished review, frames, a detector that finds one box in every
    frame, data with sizes, and an index of three of the procedures.
    """
    root = tmp_path_factory.mktemp("places")
    data = read_data(sample_run.data)
    shutil.copytree(sample_run.data, root / "less")
    three = pl.col("procedure_id").is_in(["001-001", "001-002", "001-003"])
    less = (data.detections.filter(three), data.procedures.filter(three), data.polyps.filter(three))
    write_data(root / "less", DataSet.of(*less))
    build = ("index", "build", sample_run.run, root / "less", "--index", root / "index")
    kills.run(*build, "--device", "cpu", below=root / "index")
    shutil.copytree(run_folder / "count", root / "review")
    finish_review(root / "review", sample_run.data)
    answer = {"output0": np.array([[[10.0, 8.0, 26.0, 20.0, 0.9, 0.0]]])}
    return {
        "DATA": sample_run.data,
        "RUN": sample_run.run,
        "COUNT": run_folder,
        "INDEX": root / "index",
        "REVIEW": root / "review",
        "FRAMES": sample_run.root / "frames" / "001-005",
        "DETECTOR": write_model(root / "detector.onnx", answer, [1, 3, 40, 48]),
        "SIZED": write_labelled(root / "sized"),
    }


def write_csv(folder: Path, data: DataSet) -> Path:
    convert(data, "csv", folder)
    return folder


def test_an_import_over_another_leaves_the_old_or_the_new(kills: Killer, tmp_path: Path) -> None:
    first, second = write_csv(tmp_path / "a", small_set()), write_csv(tmp_path / "b", scored_set())
    words = {"real-colon": {"HP": True, "AD": True, "NO POLYP": False}}
    (tmp_path / "map.json").write_text(json.dumps(words))
    old = ("import", "csv", first, tmp_path / "out", "--histology-map", tmp_path / "map.json")
    new = ("import", "csv", second, tmp_path / "out")
    kills.run(*old, below=tmp_path / "out")
    before = contents(tmp_path / "out")
    old_key = read_data(tmp_path / "out").key
    kills.run(*new, below=tmp_path / "out")
    after = contents(tmp_path / "out")
    new_key = read_data(tmp_path / "out").key
    assert old_key != new_key
    kinds = {old_key: before, new_key: after}
    seen, events = [], spread(kills.events, MOST)
    kills.run(*old, below=tmp_path / "out")
    for _ in kills.at_events(*new, below=tmp_path / "out", events=events):
        found = read_data(tmp_path / "out").key
        assert contents(tmp_path / "out") == kinds[found]
        seen.append(found)
        kills.run(*old, below=tmp_path / "out")
        assert contents(tmp_path / "out") == before
    assert seen == sorted(seen, key=[old_key, new_key].index)
    assert set(seen) == {old_key, new_key}
    assert contents(tmp_path / "out") == after
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    print(f"import: {len(seen)} kills")


VERBS = {
    "merge": "merge OUT DATA",
    "convert": "convert DATA csv OUT",
    "simulate": "simulate OUT --preset smoke --write tables --seed 3 --workers 1",
    "prepare": "prepare OUT --set prepare.size=8 --workers 1",
    "embed": "embed RUN OUT --out OUT/vectors.parquet --device cpu",
    "shard": "embed RUN OUT --shard 1/2 --device cpu --no-keep-crops",
    "count": "count RUN DATA --part eval --out OUT --device cpu",
    "evaluate": "evaluate RUN DATA --part eval --out OUT --device cpu --task retrieval",
    "calibrate": "calibrate RUN DATA --part train --out OUT --device cpu",
    "index build": "index build RUN DATA --index OUT/index --device cpu",
    "train": "train ntssl-demo DATA --out OUT --device cpu --workers 1",
    "split": "split OUT --shares train=0.5,test=0.5",
    "search": "search RUN 001-001:00000 --index INDEX --out OUT --device cpu",
    "hand-off": "hand-off OUT --data DATA",
    "index add": "index add RUN DATA --index OUT --device cpu --workers 1",
    "run": "run FRAMES --detector DETECTOR --weights RUN --out OUT --device cpu --workers 1",
    "learn-from": "learn-from RUN REVIEW --out OUT",
    "probe": "probe size RUN SIZED --out OUT --length 4 --seeds 1 --epochs 2 --workers 1",
    "export": "export RUN OUT",
    "reproduce": "reproduce all OUT --workspace OUT/runs --only supervised --stand-in --grid demo "
    "--seeds 1 --device cpu --workers 1",
}
# They write into the folder that they read.
WITHIN = dict.fromkeys(("prepare", "embed", "shard", "split", "reproduce"), "DATA")
WITHIN |= {"hand-off": "COUNT", "index add": "INDEX"}
ONCE = ("index build", "export", "convert")  # they refuse a whole result that is there


@pytest.mark.parametrize("verb", VERBS)
def test_a_killed_command_is_finished_by_the_same_command(
    verb: str, kills: Killer, places: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "killed" / "out"
    places = {**places, "OUT": out}
    words = VERBS[verb].split() + (TRAIN if verb in {"train", "reproduce"} else [])
    pattern = "^(" + "|".join(places) + ")"
    command = [words[0], *(re.sub(pattern, lambda m: str(places[m[0]]), w) for w in words[1:])]

    def clear() -> None:
        shutil.rmtree(out.parent, ignore_errors=True)
        if verb in WITHIN:
            others = shutil.ignore_patterns("prepared")
            shutil.copytree(places[WITHIN[verb]], out, ignore=others)

    for _ in range(2):  # the first run also fills caches beside the data, which a report tells
        clear()
        kills.run(*command, below=out.parent)
    wanted, killed = contents(out), 0
    clear()
    most = MOST // 2 if verb == "export" else MOST  # one takes many seconds
    for event in spread(kills.events, most):
        killed += bool(kills.run(*command, below=out.parent, event=event))
        resume = ["--resume"] if verb == "train" and (out / "last.safetensors").is_file() else []
        if verb not in ONCE or contents(out) != wanted:
            kills.run(*command, *resume, below=out)
        assert contents(out) == wanted, event
        clear()
    assert killed
    print(f"{verb}: {killed} kills")


def test_results_over_older_ones_are_the_old_or_the_new(
    kills: Killer, sample_run: SampleRun, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def command(purpose: str) -> tuple[str | Path, ...]:
        options = ("--part", "eval", "--device", "cpu", "--purpose", purpose, "--out", out)
        return ("count", sample_run.run, sample_run.data, *options)

    whole, events = [], 0
    for purpose in ("count", "link", "count", "link"):  # the first two fill caches
        kills.run(*command(purpose), below=out)
        whole.append(contents(out))
        events = kills.events if purpose == "count" else events
    after, before = whole[2:]
    assert after != before
    seen, numbers = [], spread(events, MOST)
    for _ in kills.at_events(*command("count"), below=out, events=numbers):
        settle(out)
        found = contents(out)
        assert found in (before, after)
        seen.append(found == after)
        kills.run(*command("link"), below=out)
    assert seen == sorted(seen)
    print(f"count over another: {len(seen)} kills")


def test_an_answer_is_in_the_log_or_not(
    kills: Killer, sample_run: SampleRun, run_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(run_folder, out)
    (out / "count" / "corrections.jsonl").unlink(missing_ok=True)
    answers = 0
    for _ in kills.at_events("answer", out, sample_run.data, below=out, events=count(1)):
        found = read_corrections(out / "count")
        assert len(found) in (answers, answers + 1)
        assert all(one.kind == "same" for one in found)
        answers = len(found)
    assert len(read_corrections(out / "count")) == answers + 1
