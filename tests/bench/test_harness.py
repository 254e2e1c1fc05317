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
    read_recorded,
    record,
    timed,
)

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only the timed calls move."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def sorting(clock: list[float], **changed: Any) -> Case:
    """A case whose path takes size seconds, and whose rival takes its square for a half of it."""

    def prepare(size: int, device: torch.device, folder: Path) -> Work:
        assert folder.is_dir()

        def ours() -> list[int]:
            clock[0] += size
            return list(range(size))

        def rival() -> list[int]:
            clock[0] += size**2
            return sorted(range(size), reverse=True)[::-1]

        made: dict[str, Any] = {"ours": ours, "rival": rival, "equal": lambda a, b: a == b}
        return Work(**made | {"scale": 2.0} | changed)

    return Case("sort", prepare, "bubble sort on {device}", size=16, unit="items")


def test_a_case_is_timed_against_its_rival(clock: list[float]) -> None:
    found = measure(sorting(clock), 16, CPU)
    assert (found.ours_s, found.rival_s, found.ratio) == (16.0, 512.0, 32.0)
    assert found.exponent == pytest.approx(1.0)
    line = found.line()
    for words in ("16 items", "32.0 x faster than bubble sort on cpu (512.000 s)", "size^1.00"):
        assert words in line
    assert line.endswith(", equal")
    assert list(to_plain(found))[:8] == [
        *("name", "rival", "size", "ours_s", "rival_s", "ratio", "exponent", "equal"),
    ]


def test_what_a_work_changes_is_in_the_result(clock: list[float]) -> None:
    different = measure(sorting(clock, equal=lambda a, b: a != b), 8, CPU)
    assert not different.equal
    assert different.line().endswith("NOT EQUAL")
    alone = replace(sorting(clock, rival=None), rival="-", repeats=(5, 0, 0), memory=True)
    found = measure(alone, 8, CPU)
    assert (found.rival_s, found.ratio, found.exponent) == (None, None, None)
    assert found.peak_mb is not None
    more = sorting(clock, more=lambda out, s: {"rate": len(out) / s, "also": {"items": len(out)}})
    assert "1.0 a second, items: 8" in measure(more, 8, CPU).line()
    part = measure(sorting(clock, seconds=lambda out: 3.0), 8, CPU)
    assert (part.ours_s, part.rival_s) == (3.0, 6.0)
    square = sorting(clock, at=lambda n: lambda: clock.__setitem__(0, clock[0] + n**2))
    assert measure(square, 8, CPU).exponent == pytest.approx(2.0)


def test_the_fastest_call_counts(clock: list[float]) -> None:
    seconds = iter([5.0, 2.0, 9.0])
    assert timed(lambda: clock.__setitem__(0, clock[0] + next(seconds)), 3)[1] == 2.0


def test_the_peak_is_of_what_is_held_at_once() -> None:
    def call() -> None:
        for _ in range(3):
            np.zeros(1_000_000)  # 8 MB, freed each time

    assert 8.0 <= most_memory(call) < 10.0


def result(ratio: float | None, *, equal: bool = True, size: int = 8) -> BenchResult:
    return BenchResult("x", "loop", size, 1.0, ratio, ratio, None, equal)


def test_what_fell_by_more_than_a_quarter_is_named_and_other_ratios_are_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "recorded.json"
    assert read_recorded(path) == {}
    kept = {"y": {"size": 1, "ratio": 2.0}}
    path.write_text(json.dumps(kept))
    record([result(100.0), replace(result(None), name="startup")], path)  # without a rival
    last = read_recorded(path)
    assert last == kept | {"x": {"size": 8, "ratio": 100.0}}
    assert complaint(result(76.0), last) is None
    assert complaint(result(74.0), last) == "x: fell from 100 to 74 times the rival's speed"
    assert complaint(result(10.0, size=9), last) is None
    assert complaint(result(100.0, equal=False), last) == "x: outputs are not equal"
