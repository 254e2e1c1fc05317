import json
from pathlib import Path

import pytest

from tests.app.calls import assert_refused, polyplink


def test_bench_prints_one_object_per_path() -> None:
    result = polyplink("bench", "bags", "--size", "64", "--json")
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert (found["name"], found["size"], found["equal"]) == ("bags", 64, True)


def test_an_unknown_path_is_refused_with_the_nearest() -> None:
    assert_refused(polyplink("bench", "sweeep"), "did you mean sweep")


def test_what_fell_is_named_and_ends_in_1(monkeypatch: pytest.MonkeyPatch) -> None:
    last = {"bags": {"size": 64, "ratio": 1e9}}
    monkeypatch.setattr("polyplink.bench.read_recorded", lambda: last)
    result = polyplink("bench", "bags", "--size", "64", "--compare")
    assert result.exit_code == 1
    assert result.stderr.startswith("bags: fell from 1e+09 to ")
    assert polyplink("bench", "bags", "--size", "64").exit_code == 0


def test_ratios_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(
        "polyplink.bench.record", lambda results: kept.extend(r.name for r in results)
    )
    assert polyplink("bench", "bags", "--size", "64", "--record").exit_code == 0
    assert kept == ["bags"]


def test_a_profile_is_of_a_step(tmp_path: Path) -> None:
    assert_refused(polyplink("bench", "bags", "--profile", tmp_path / "p"), "is for the path step")


def test_a_gpu_is_refused_to_paths_that_use_none() -> None:
    assert_refused(polyplink("bench", "bags", "--device", "cuda"), "no GPU is used for bags")
