import json

import pytest

from polyplink_lab.bench.cases import CASES
from polyplink_lab.cli.bench import NAMES
from tests.cli.calls import polyplink


def test_every_benchmark_can_be_named() -> None:
    assert set(NAMES) == set(CASES)


def test_bench_prints_one_json_object_per_benchmark() -> None:
    result = polyplink("bench", "bags", "--size", "64", "--json")
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    printed = json.loads(line)
    assert (printed["name"], printed["size"], printed["equal"]) == ("bags", 64, True)


def test_a_fallen_ratio_is_reported_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    last = {"bags": {"size": 64, "ratio": 1e9}}
    monkeypatch.setattr("polyplink_lab.bench.harness.read_recorded", lambda: last)
    result = polyplink("bench", "bags", "--size", "64", "--compare")
    assert result.exit_code == 1
    assert result.stderr.startswith("bags: fell from 1e+09 to ")
    assert polyplink("bench", "bags", "--size", "64").exit_code == 0


def test_ratios_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[str] = []
    monkeypatch.setattr(
        "polyplink_lab.bench.harness.record",
        lambda results: recorded.extend(r.name for r in results),
    )
    assert polyplink("bench", "bags", "--size", "64", "--record").exit_code == 0
    assert recorded == ["bags"]
