"""Results as a notebook shows them: short reprs, HTML, tables, progress."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from rich.table import Table

from polyplink import Trained, convert_data, count, draw_figures, evaluate_weights
from polyplink.cli.verb import Result, inform
from polyplink.core.notebook import CellBars, result_html
from polyplink.report.page import render_fragment
from polyplink.tracklets.prepare import prepare
from tests.conftest import SampleRun, recipe


def test_a_count_shows_itself(sample_run: SampleRun, tmp_path: Path) -> None:
    result = count(sample_run.run, sample_run.data, out=tmp_path / "<count>", device="cpu")
    assert len(repr(result)) < 500
    assert len(repr(result.value.page)) < 500
    shown = result._repr_html_()
    for part in ('<svg class="timeline"', "data:image/jpeg", "Counted polyps", "warning:"):
        assert part in shown
    for part in ("<script", "\nbody {", ":root"):  # would act on the whole notebook
        assert part not in shown
    assert pl.read_csv(tmp_path / "<count>" / "counts.csv").equals(result.value.counts)
    written = pl.read_csv(tmp_path / "<count>" / "views.csv", schema=result.value.views.schema)
    assert written.equals(result.value.views)
    page = result.value.page
    many = render_fragment(replace(page, procedures=page.procedures * 3))
    assert many.count('<svg class="timeline"') == 8
    assert "7 more procedures are in the report" in many


def test_an_evaluation_shows_itself(sample_run: SampleRun, tmp_path: Path) -> None:
    tasks = ("retrieval",)
    result = evaluate_weights(
        sample_run.run, sample_run.data, out=tmp_path, tasks=tasks, device="cpu"
    )
    assert len(repr(result)) < 500
    for value in (result.value, result.value.comparison, result.value.comparison.methods[0]):
        assert len(repr(value)) < 500
    assert "mAP" in result._repr_html_()
    written = pl.read_csv(tmp_path / "figures.csv")
    assert written["value"].to_list() == result.value.figures["value"].to_list()
    assert result.value.figures.to_pandas().shape == written.shape


def test_figures_show_themselves(sample_run: SampleRun, tmp_path: Path) -> None:
    drawn = draw_figures(
        sample_run.run, sample_run.data, out=tmp_path, only=["recall"], device="cpu"
    )
    assert drawn._repr_html_().count("data:image/png;base64,") == 1


def test_what_has_no_form_of_its_own_is_shown_as_printed() -> None:
    table = Table("name", "n", title="<b>")
    table.add_row("a\x1b[31m", "1\n2")
    shown = result_html(None, ["<i>", table], ["<u>"])
    assert ">&lt;i&gt;</pre>" in shown
    assert "&lt;u&gt;" in shown
    assert "<caption>&lt;b&gt;</caption>" in shown
    assert "<td>a\\x1b[31m</td><td>1<br>2</td>" in shown


def test_reprs_are_short(sample_run: SampleRun, tmp_path: Path) -> None:
    prepared = prepare(sample_run.data, recipe().prepare)
    converted = convert_data(sample_run.data, "csv", tmp_path / "csv")
    for value in (prepared.data, prepared, converted, Result(["x" * 50] * 1000)):
        assert len(repr(value)) < 500, value


def test_bars_are_one_block_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[list[str]] = []

    def display(block: str, *, display_id: bool) -> SimpleNamespace:
        assert display_id
        blocks.append([block])
        return SimpleNamespace(update=blocks[-1].append)

    shell = SimpleNamespace(execution_count=1)
    shown = SimpleNamespace(HTML=str, display=display)
    fake = SimpleNamespace(get_ipython=lambda: shell, display=shown)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    bars = CellBars()
    for done in range(1, 100):
        bars("<crops>", done, 99)
    bars("tracklets", 1, 2)
    assert len(blocks) == 1
    assert len(blocks[0]) == 3  # the first crop, the last, tracklets: the others came too soon
    assert "&lt;crops&gt; 99 of 99" in blocks[0][-1]
    assert "tracklets 1 of 2" in blocks[0][-1]
    shell.execution_count = 2
    bars("tracklets", 2, 2)
    assert len(blocks) == 2
    assert "crops" not in blocks[1][0]


def test_nothing_is_shown_outside_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    inform("crops", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_results_without_a_page_show_their_fields_and_tables() -> None:
    trained = Trained(Path("<run>"), 3, 10, 0.5, "links", ())
    shown = trained._repr_html_()
    assert "<th>epoch</th><td>3</td>" in shown
    assert "&lt;run&gt;" in shown
    # With its result, what the command line prints is shown.
    assert Result(trained, printed=["done"])._repr_html_().endswith(">done</pre>")
    assert len(repr(recipe())) < 700


def test_a_narrow_terminal_cuts_no_cell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    table = Table("name", *"abc")
    table.add_row(*("x" * 60,) * 4)
    Result(None, printed=[table]).print_text()
    printed = capsys.readouterr().out
    assert printed.count("x") == 4 * 60
    assert {len(line) for line in printed.splitlines() if "x" in line} == {80}
