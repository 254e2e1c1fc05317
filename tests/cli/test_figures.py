"""The verb figures."""

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import FIGURES
from polyplink.core.registry import Registry
from polyplink.report.figures import FigureData
from tests.cli.calls import assert_refused, polyplink
from tests.conftest import SampleRun


def test_all_figures_are_drawn(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Placing the axes takes most of the time of drawing; other tests draw with it.
    monkeypatch.setattr(Figure, "set_layout_engine", lambda *_, **__: None)
    options = ("-o", tmp_path, "--device", "cpu", "--workers", "1", "--json")
    beside = ("--beside", f"again={sample_run.run}")
    result = polyplink("figures", sample_run.run, sample_run.data, *options, *beside)
    assert result.exit_code == 0, result.stderr
    written = [Path(name) for name in json.loads(result.stdout)]
    assert [path.name for path in written] == [
        f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")
    ]
    assert all(path.stat().st_size > 1000 for path in written)
    assert (tmp_path / "run.json").is_file()


def draw_nothing(_: FigureData) -> None:
    raise PolyplinkError("no polyp has another one", "give two")


def test_a_figure_without_data_is_left_out_unless_requested(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def register(**figures: str) -> None:
        registry = Registry[Any]("figure", "polyplink.figures", figures)
        monkeypatch.setattr("polyplink.cli.figures.FIGURES", registry)

    failing = f"{__name__}:draw_nothing"
    register(similarity=failing, pca=failing)
    options = ("-o", tmp_path, "--device", "cpu", "--workers", "1")
    command = ("figures", sample_run.run, sample_run.data, *options)
    for only in ((), ("--only", "pca")):
        assert_refused(polyplink(*command, *only), "no polyp has another one; give two")
    register(similarity=failing, pca="polyplink.report.figures:draw_pca")
    result = polyplink(*command, "--part", "train")
    assert result.exit_code == 0, result.stderr
    assert "similarity is left out: no polyp has another one; give two" in result.stderr
    assert "run was trained or validated on 4 of these procedures: its" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"pca.svg", "pca.png", "run.json"}
