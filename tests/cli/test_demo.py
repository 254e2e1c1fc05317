"""The demo on a small preset."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink_lab.cli.demo import demo
from polyplink_lab.simulate.presets import smoke
from tests.conftest import TINY

PRESET = replace(smoke(), name="test", width=48, height=40)
SETS = (*TINY, "validation.every=2")


@pytest.mark.slow  # `.ci/run` runs the full demo, and its verbs have quick tests
def test_the_demo_writes_all_results_and_a_second_run_equal_ones(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    demo(out, workers=1, preset=PRESET, sets=SETS)
    for name in ("raw/video_info.csv", "data/detections.parquet", "run/weights.safetensors"):
        assert (out / name).is_file()
    assert json.loads((out / "count" / "count.json").read_text())["polyps"] > 0
    assert "Simulated data" in (out / "first" / "report.html").read_text()
    (warning,) = json.loads((out / "recording" / "count" / "count.json").read_text())["warnings"]
    assert warning.startswith("Research use only")
    page = (out / "report.html").read_text()
    assert "Simulated data" in page
    assert "colour histogram" in page
    figures = json.loads((out / "evaluation.json").read_text())
    second = demo(out, workers=1, preset=PRESET, sets=SETS)
    assert second.value.as_dict() == figures
    with pytest.raises(PolyplinkError, match="holds something else"):
        demo(out, seed=1, workers=1, preset=PRESET, sets=SETS)
    other.mkdir()
    (other / "mine.txt").write_text("x")
    with pytest.raises(PolyplinkError, match="holds something else"):
        demo(other, workers=1, preset=PRESET)
    assert (other / "mine.txt").read_text() == "x"
