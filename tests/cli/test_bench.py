import json
from pathlib import Path

from polyplink_lab.bench.cases import CASES
from polyplink_lab.cli.bench import NAMES
from tests.cli.calls import assert_refused, polyplink, succeed


def test_every_benchmark_can_be_named() -> None:
    assert set(NAMES) == set(CASES)


def test_bench_prints_one_json_object_per_benchmark() -> None:
    result = succeed("bench", "bags", "--size", "64", "--json")
    (line,) = result.stdout.splitlines()
    printed = json.loads(line)
    assert (printed["name"], printed["size"], printed["equal"]) == ("bags", 64, True)


def test_a_ratio_below_the_recorded_one_is_reported_with_exit_code_1(tmp_path: Path) -> None:
    path = tmp_path / "ratios.json"
    succeed("bench", "bags", "--size", "64", "--record", path)
    recorded = json.loads(path.read_text())
    assert recorded["bags"]["size"] == 64
    path.write_text(json.dumps({"bags": {"size": 64, "ratio": 1e9}}))
    result = polyplink("bench", "bags", "--size", "64", "--compare", path)
    assert result.exit_code == 1
    assert result.stderr.startswith("bags: fell from 1e+09 to ")
    path.unlink()
    missing = polyplink("bench", "bags", "--size", "64", "--compare", path)
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "make it with --record" in missing.stderr


def test_a_file_without_ratios_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for content in ([1], {"bags": 3}, {"bags": {"ratio": 2.0}}):
        path.write_text(json.dumps(content))
        for option in ("--compare", "--record"):
            refused = polyplink("bench", "bags", "--size", "64", option, path)
            assert_refused(refused, "is not a file of --record")
            assert refused.stdout == ""
    assert json.loads(path.read_text()) == content
