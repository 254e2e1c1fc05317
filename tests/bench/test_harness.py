import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polyplink.core.artefacts import to_plain
from polyplink_lab.bench.harness import (
    BenchResult,
    Case,
    Work,
    complaint,
    measure,
    most_memory,
    record,
    time_calls,
)

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only the timed calls advance."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def sorting_case(clock: list[float], **changes: Any) -> Case:
    """A case that takes `size` seconds; its rival takes `size` squared for half of the work."""

    def prepare(size: int, device: torch.device, folder: Path) -> Work:
        assert folder.is_dir()

        def ours() -> list[int]:
            clock[0] += size
            return list(range(size))

        def rival() -> list[int]:
            clock[0] += size**2
            return sorted(range(size), reverse=True)[::-1]

        fields: dict[str, Any] = {"ours": ours, "rival": rival, "equal": lambda a, b: a == b}
        return Work(**fields | {"scale": 2.0} | changes)

    return Case("sort", prepare, "bubble sort on {device}", size=16, unit="items")


def test_a_case_is_timed_against_its_rival(clock: list[float]) -> None:
    result = measure(sorting_case(clock), 16, CPU)
    assert (result.ours_s, result.rival_s, result.ratio) == (16.0, 512.0, 32.0)
    assert result.exponent == pytest.approx(1.0)
    line = result.line()
    for text in ("16 items", "32.0 x faster than bubble sort on cpu (512.000 s)", "size^1.00"):
        assert text in line
    assert line.endswith(", equal")
    assert list(to_plain(result))[:8] == [
        *("name", "rival", "size", "ours_s", "rival_s", "ratio", "exponent", "equal")
    ]


def test_optional_fields_of_a_case_are_in_the_result(clock: list[float]) -> None:
    different = measure(sorting_case(clock, equal=lambda a, b: a != b), 8, CPU)
    assert not different.equal
    assert different.line().endswith("NOT EQUAL")
    without_rival = replace(
        sorting_case(clock, rival=None), rival="-", repeats=(5, 0, 0), memory=True
    )
    result = measure(without_rival, 8, CPU)
    assert (result.rival_s, result.ratio, result.exponent) == (None, None, None)
    assert result.peak_mb is not None
    with_more = sorting_case(
        clock, more=lambda out, s: {"rate": len(out) / s, "also": {"items": len(out)}}
    )
    assert "1.0 a second, items: 8" in measure(with_more, 8, CPU).line()
    partly_timed = measure(sorting_case(clock, seconds=lambda out: 3.0), 8, CPU)
    assert (partly_timed.ours_s, partly_timed.rival_s) == (3.0, 6.0)
    quadratic = sorting_case(clock, at=lambda n: lambda: clock.__setitem__(0, clock[0] + n**2))
    assert measure(quadratic, 8, CPU).exponent == pytest.approx(2.0)


def test_timed_returns_the_seconds_of_the_fastest_call(clock: list[float]) -> None:
    seconds = iter([5.0, 2.0, 9.0])
    assert time_calls(lambda: clock.__setitem__(0, clock[0] + next(seconds)), 3)[1] == 2.0


def test_the_memory_peak_excludes_freed_arrays() -> None:
    def call() -> None:
        for _ in range(3):
            np.zeros(1_000_000)  # 8 MB, freed each time

    assert 8.0 <= most_memory(call) < 10.0


def bench_result(ratio: float | None, *, equal: bool = True, size: int = 8) -> BenchResult:
    return BenchResult("x", "loop", size, 1.0, ratio, ratio, None, equal)


def test_a_ratio_that_fell_by_over_a_quarter_is_reported_and_other_ratios_stay(
    tmp_path: Path,
) -> None:
    path = tmp_path / "recorded.json"
    others = {"y": {"size": 1, "ratio": 2.0}}
    path.write_text(json.dumps(others))
    startup = replace(bench_result(None), name="startup")  # without a rival
    record([bench_result(100.0), startup], path)
    last = json.loads(path.read_text())
    assert last == others | {"x": {"size": 8, "ratio": 100.0}}
    assert complaint(bench_result(76.0), last) is None
    assert complaint(bench_result(74.0), last) == "x: fell from 100 to 74 times the rival's speed"
    assert complaint(bench_result(10.0, size=9), last) is None
    assert complaint(bench_result(100.0, equal=False), last) == "x: outputs are not equal"
