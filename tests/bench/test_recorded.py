import json
from pathlib import Path

import pytest

from polyplink.bench.catalogue import CATALOGUE
from polyplink.bench.harness import BenchResult, against
from polyplink.bench.recorded import complaint, read_recorded, record
from polyplink.core.errors import PolyplinkError


def result(ratio: float, *, equal: bool = True, size: int = 8) -> BenchResult:
    return against("x", "loop", size, ours_s=1.0, rival_s=ratio, exponent=None, equal=equal)


def test_what_fell_by_more_than_a_quarter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    record([result(100.0)], path)
    last = read_recorded(path)
    assert complaint(result(76.0), last) is None
    assert complaint(result(74.0), last) == "x: fell from 100 to 74 times the rival's speed"
    assert complaint(result(10.0, size=9), last) is None
    assert complaint(result(100.0, equal=False), last) == "x: outputs are not equal"


def test_other_paths_stay_and_what_has_no_rival_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    path.write_text('{"y": {"size": 1, "ratio": 2.0}}')
    alone = BenchResult("startup", "-", 1, 0.1, None, None, None, True)
    record([result(3.0), alone], path)
    assert json.loads(path.read_text()) == {
        "x": {"size": 8, "ratio": 3.0},
        "y": {"size": 1, "ratio": 2.0},
    }


def test_a_broken_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    assert read_recorded(path) == {}
    for text in ("{", "[]"):
        path.write_text(text)
        with pytest.raises(PolyplinkError, match="record again with --record"):
            read_recorded(path)


def test_what_is_recorded_is_of_paths_there_are() -> None:
    recorded = read_recorded()
    assert recorded
    assert set(recorded) <= set(CATALOGUE)
