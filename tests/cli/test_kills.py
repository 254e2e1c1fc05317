"""A command killed at any file event leaves old or new results, and can be repeated."""

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

from polyplink.core.artefacts import finish_change
from polyplink.counting.corrections import read_corrections
from polyplink.data.conversion import convert
from polyplink.data.tables import DataSet, read_data, write_data
from tests.cli.labelled_polyps import write_labelled
from tests.cli.reviews import finish_review
from tests.conftest import TINY, SampleRun
from tests.data.sample_sets import scored_set, small_set
from tests.detect.models import write_model
from tests.kills import Killer, contents, killer, spread

pytestmark = pytest.mark.slow
TRAIN = [word for setting in TINY for word in ("--set", setting)]
# Kills per verb; `make kill` has no limit.
MAX_KILLS = 10**6 if os.environ.get("KILLS") == "1" else 4


@pytest.fixture(scope="module")
def kills() -> Iterator[Killer]:
    with killer() as started:
        yield started


@pytest.fixture(scope="module")
def inputs(
    sample_run: SampleRun, run_folder: Path, kills: Killer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Inputs of commands.

    Data, weights, a count, a finished review, frames, a detector with one box per frame, data with
    polyp sizes, and an index of three procedures.
    """
    root = tmp_path_factory.mktemp("places")
    data = read_data(sample_run.data)
    shutil.copytree(sample_run.data, root / "less")
    first_three = pl.col("procedure_id").is_in(["001-001", "001-002", "001-003"])
    tables = (
        data.detections.filter(first_three),
        data.procedures.filter(first_three),
        data.polyps.filter(first_three),
    )
    write_data(root / "less", DataSet.of(*tables))
    command = ("index", "build", sample_run.run, root / "less", "--index", root / "index")
    kills.run(*command, "--device", "cpu", below=root / "index")
    shutil.copytree(run_folder / "count", root / "review")
    finish_review(root / "review", sample_run.data)
    output = {"output0": np.array([[[10.0, 8.0, 26.0, 20.0, 0.9, 0.0]]])}
    return {
        "DATA": sample_run.data,
        "RUN": sample_run.run,
        "COUNT": run_folder,
        "INDEX": root / "index",
        "REVIEW": root / "review",
        "FRAMES": sample_run.frames,
        "DETECTOR": write_model(root / "detector.onnx", output, [1, 3, 40, 48]),
        "SIZED": write_labelled(root / "sized"),
    }


def write_csv(folder: Path, data: DataSet) -> Path:
    convert(data, "csv", folder)
    return folder


def test_an_import_over_another_leaves_the_old_or_the_new_tables(
    kills: Killer, tmp_path: Path
) -> None:
    first, second = write_csv(tmp_path / "a", small_set()), write_csv(tmp_path / "b", scored_set())
    adenoma_map = {"real-colon": {"HP": True, "AD": True, "NO POLYP": False}}
    (tmp_path / "map.json").write_text(json.dumps(adenoma_map))
    new = ("import", "csv", second, tmp_path / "out", "--replace")
    # The last two are stored in files.
    further = ("--replace", "--histology-map", tmp_path / "map.json", "--detector", "mine")
    old = ("import", "csv", first, tmp_path / "out", *further)
    kills.run(*old, below=tmp_path / "out")
    old_contents = contents(tmp_path / "out")
    old_key = read_data(tmp_path / "out").key
    kills.run(*new, below=tmp_path / "out")
    new_contents = contents(tmp_path / "out")
    new_key = read_data(tmp_path / "out").key
    assert old_key != new_key
    contents_by_key = {old_key: old_contents, new_key: new_contents}
    keys, events = [], spread(kills.events, MAX_KILLS)
    kills.run(*old, below=tmp_path / "out")
    for _ in kills.at_events(*new, below=tmp_path / "out", events=events):
        key = read_data(tmp_path / "out").key
        assert contents(tmp_path / "out") == contents_by_key[key]
        keys.append(key)
        kills.run(*old, below=tmp_path / "out")
        assert contents(tmp_path / "out") == old_contents
    assert keys == sorted(keys, key=[old_key, new_key].index)
    assert set(keys) == {old_key, new_key}
    assert contents(tmp_path / "out") == new_contents
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    print(f"import: {len(keys)} kills")


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
# Verbs that write into their input folder.
INPUT_FOLDERS = dict.fromkeys(("prepare", "embed", "shard", "split", "reproduce"), "DATA")
INPUT_FOLDERS |= {"hand-off": "COUNT", "index add": "INDEX"}
REFUSE_EXISTING = ("index build", "export", "convert")  # these verbs refuse an existing result


@pytest.mark.parametrize("verb", VERBS)
def test_a_killed_command_is_completed_by_repeating_it(
    verb: str, kills: Killer, inputs: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "killed" / "out"
    inputs = {**inputs, "OUT": out}
    verb_words = VERBS[verb].split() + (TRAIN if verb in {"train", "reproduce"} else [])
    pattern = "^(" + "|".join(inputs) + ")"
    command = [
        verb_words[0],
        *(re.sub(pattern, lambda m: str(inputs[m[0]]), w) for w in verb_words[1:]),
    ]

    def reset() -> None:
        shutil.rmtree(out.parent, ignore_errors=True)
        if verb in INPUT_FOLDERS:
            ignored = shutil.ignore_patterns("prepared")
            shutil.copytree(inputs[INPUT_FOLDERS[verb]], out, ignore=ignored)

    for _ in range(2):  # the first run also fills caches beside the data, which change the report
        reset()
        kills.run(*command, below=out.parent)
    expected, killed = contents(out), 0
    reset()
    max_kills = MAX_KILLS // 2 if verb == "export" else MAX_KILLS  # an export takes many seconds
    for event in spread(kills.events, max_kills):
        killed += bool(kills.run(*command, below=out.parent, event=event))
        resume = ["--resume"] if verb == "train" and (out / "last.safetensors").is_file() else []
        if verb not in REFUSE_EXISTING or contents(out) != expected:
            kills.run(*command, *resume, below=out)
        assert contents(out) == expected, event
        reset()
    assert killed
    print(f"{verb}: {killed} kills")


def test_overwritten_results_are_the_old_or_the_new_ones(
    kills: Killer, sample_run: SampleRun, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def command(purpose: str) -> tuple[str | Path, ...]:
        options = ("--part", "eval", "--device", "cpu", "--purpose", purpose, "--out", out)
        return ("count", sample_run.run, sample_run.data, *options)

    results, events = [], 0
    for purpose in ("count", "link", "count", "link"):  # the first two fill caches
        kills.run(*command(purpose), below=out)
        results.append(contents(out))
        events = kills.events if purpose == "count" else events
    new_contents, old_contents = results[2:]
    assert new_contents != old_contents
    is_new, numbers = [], spread(events, MAX_KILLS)
    for _ in kills.at_events(*command("count"), below=out, events=numbers):
        finish_change(out)
        current = contents(out)
        assert current in (old_contents, new_contents)
        is_new.append(current == new_contents)
        kills.run(*command("link"), below=out)
    assert is_new == sorted(is_new)
    print(f"count over another: {len(is_new)} kills")


def test_an_answer_is_logged_completely_or_not_at_all(
    kills: Killer, sample_run: SampleRun, run_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(run_folder, out)
    (out / "count" / "corrections.jsonl").unlink(missing_ok=True)
    answers = 0
    for _ in kills.at_events("answer", out, sample_run.data, below=out, events=count(1)):
        corrections = read_corrections(out / "count")
        assert len(corrections) in (answers, answers + 1)
        assert all(correction.kind == "same" for correction in corrections)
        answers = len(corrections)
    assert len(read_corrections(out / "count")) == answers + 1
