"""The verb figures."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import FIGURES
from polyplink.core.registry import Registry
from polyplink.core.runs import read_run
from polyplink.data.origin import BoxesOrigin, write_origin
from polyplink.report.figures import FigureData
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.conftest import SampleRun
from tests.samples import write_procedures


def test_all_figures_are_drawn_beside_those_of_another_encoder(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Figure] = {}

    def keep(folder: Path, name: str, figure: Figure) -> list[Path]:
        drawn[name] = figure
        return [folder / f"{name}.svg"]

    monkeypatch.setattr("polyplink.report.plots.write_figure", keep)
    options = ("-o", tmp_path, "--device", "cpu", "--workers", "1", "--clusterer", "threshold")
    beside = ("--beside", f"again={sample_run.run}", "--json")
    result = succeed("figures", sample_run.run, sample_run.data, *options, *beside)
    assert json.loads(result.stdout) == [str(tmp_path / f"{name}.svg") for name in FIGURES]
    assert list(drawn) == list(FIGURES)
    assert all(any(axes.has_data() for axes in figure.axes) for figure in drawn.values())
    legend = drawn["recall"].axes[0].get_legend()
    assert legend is not None
    assert {"ntssl-demo", "again"} <= {text.get_text() for text in legend.get_texts()}


def test_encoders_of_one_name_are_refused(sample_run: SampleRun, tmp_path: Path) -> None:
    command = ("figures", sample_run.run, sample_run.data, "-o", tmp_path, "--only", "recall")
    beside = ("--beside", f"ntssl-demo={sample_run.run}")
    assert_refused(polyplink(*command, *beside), "--beside ntssl-demo=... has the name of")
    assert_refused(polyplink(*command, *beside, *beside), "--beside names 'ntssl-demo' twice")


def test_short_sequences_are_drawn_with_the_options_that_the_error_names(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = write_procedures(tmp_path / "data", procedures=2, length=8)
    options = ("--part", "all", "-o", tmp_path / "o", "--device", "cpu", "--only", "similarity")
    command = ("figures", sample_run.weights, data, *options)
    assert_refused(polyplink(*command), "give another --part, or --min-length, ")
    succeed(*command, "--min-length", "8")
    assert (tmp_path / "o" / "similarity.svg").is_file()


def test_tracks_have_the_thresholds_of_their_detector_as_in_evaluate(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = shutil.copytree(sample_run.data, tmp_path / "data")
    write_origin(data, BoxesOrigin("d", "d", high=0.9, low=0.2, min_seconds=1.0))
    options = ("--device", "cpu", "--workers", "1")
    of_command = {"figures": ("--only", "similarity"), "evaluate": ("--task", "retrieval")}
    crops = set()
    for command, only in of_command.items():
        out = tmp_path / command
        succeed(command, sample_run.weights, data, "-o", out, *only, *options)
        crops.add(read_run(out)["inputs"]["crops"])
    assert len(crops) == 1


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
    result = succeed(*command, "--part", "train")
    assert "similarity is left out: no polyp has another one; give two" in result.stderr
    assert "run was trained or validated on 4 of these procedures: its" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"pca.svg", "pca.png", "run.json"}
