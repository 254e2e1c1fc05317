"""Results in a notebook: short reprs, HTML, tables, progress."""

import re
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from rich.table import Table

from polyplink import Trained, convert_data, count, draw_figures, evaluate_weights
from polyplink.cli.verb import CellBars, inform
from polyplink.core.results import Result, result_html
from polyplink.encoders.weights import Seen, read_record
from polyplink.report.page import render_fragment
from polyplink.tracklets.prepare import prepare
from tests.conftest import SampleRun, recipe


def test_a_count_has_an_html_repr(sample_run: SampleRun, tmp_path: Path) -> None:
    result = count(
        sample_run.weights, sample_run.data, out=tmp_path / "<count>", part="eval", device="cpu"
    )
    assert len(repr(result)) < 500
    assert len(repr(result.value.page)) < 500
    html = result._repr_html_()
    parts = ('<svg class="timeline"', "data:image/jpeg", "Counted polyps")
    for part in (*parts, "not a medical device"):
        assert part in html
    text = unescape(re.sub(r"<[^>]*>", "", html))
    assert result.warnings
    for warning in result.warnings:
        assert text.count(warning.replace("`", "")) == 1
    further = replace(result, warnings=[*result.warnings, "<further>"])._repr_html_()
    assert further == f"<p><b>warning:</b> &lt;further&gt;</p>\n{html}"
    german = replace(result.value, page=replace(result.value.page, language="de"))
    assert replace(result, value=german)._repr_html_() == german._repr_html_()  # no English above
    for part in ("<script", "\nbody {", ":root"):  # they would affect the notebook
        assert part not in html
    counts = result.value.counts  # empty columns keep their type
    assert counts.schema["low"] == pl.Int64
    assert pl.read_csv(tmp_path / "<count>" / "counts.csv", schema=counts.schema).equals(counts)
    written = pl.read_csv(tmp_path / "<count>" / "views.csv", schema=result.value.views.schema)
    assert written.equals(result.value.views)
    page = result.value.page
    fragment = render_fragment(replace(page, procedures=page.procedures * 15))
    assert fragment.count('<svg class="timeline"') == 8
    assert "7 more procedures are in the report" in fragment


def test_an_evaluation_has_an_html_repr(sample_run: SampleRun, tmp_path: Path) -> None:
    tasks = ("retrieval",)
    result = evaluate_weights(
        sample_run.weights, sample_run.data, out=tmp_path, tasks=tasks, device="cpu"
    )
    assert len(repr(result)) < 500
    for value in (result.value, result.value.comparison, result.value.comparison.methods[0]):
        assert len(repr(value)) < 500
    assert "mAP" in result._repr_html_()
    written = pl.read_csv(tmp_path / "figures.csv")
    assert written["value"].to_list() == result.value.figures["value"].to_list()
    assert result.value.figures.to_pandas().shape == written.shape


def test_figures_have_an_html_repr(sample_run: SampleRun, tmp_path: Path) -> None:
    result = draw_figures(
        sample_run.weights, sample_run.data, out=tmp_path, only=["recall"], device="cpu"
    )
    assert result._repr_html_().count("data:image/png;base64,") == 1


def test_other_results_are_shown_as_printed() -> None:
    table = Table("name", "n", title="<b>")
    table.add_row("a\x1b[31m", "1\n2")
    html = result_html(None, ["<i>", table], ["<u>"])
    assert ">&lt;i&gt;</pre>" in html
    assert "&lt;u&gt;" in html
    assert "<caption>&lt;b&gt;</caption>" in html
    assert "<td>a\\x1b[31m</td><td>1<br>2</td>" in html


def test_reprs_are_short(sample_run: SampleRun, tmp_path: Path) -> None:
    prepared = prepare(sample_run.data, recipe().prepare)
    converted = convert_data(sample_run.data, "csv", tmp_path / "csv")
    seen = Seen(trained=[("set", f"001-{k:03}", "p") for k in range(900)])
    record = replace(read_record(sample_run.weights), seen=seen)
    large = Result(["x" * 50] * 1000)
    for value in (prepared.data, prepared, converted, record, large):
        assert len(repr(value)) < 500, value


def test_progress_bars_are_one_block_per_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[list[str]] = []

    def display(block: str, *, display_id: bool) -> SimpleNamespace:
        assert display_id
        blocks.append([block])
        return SimpleNamespace(update=blocks[-1].append)

    shell = SimpleNamespace(execution_count=1)
    ipython_display = SimpleNamespace(HTML=str, display=display)
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=ipython_display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    bars = CellBars()
    for done in range(1, 100):
        bars("<crops>", done, 99)
    bars("tracklets", 1, 2)
    assert len(blocks) == 1
    assert len(blocks[0]) == 3  # the first crop, the last, tracklets; others came too early
    assert "&lt;crops&gt; 99 of 99" in blocks[0][-1]
    assert "tracklets 1 of 2" in blocks[0][-1]
    shell.execution_count = 2
    bars("tracklets", 2, 2)
    assert len(blocks) == 2
    assert "crops" not in blocks[1][0]


def test_no_progress_is_shown_outside_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    inform("crops", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_results_without_a_page_show_their_fields_and_tables() -> None:
    trained = Trained(Path("<run>"), 3, 10, 0.5, "links", ())
    html = trained._repr_html_()
    assert "<th>epoch</th><td>3</td>" in html
    assert "&lt;run&gt;" in html
    # A result also shows the text of the command line.
    assert Result(trained, printed=["done"])._repr_html_().endswith(">done</pre>")
    assert len(repr(recipe())) < 700


def test_a_narrow_terminal_does_not_truncate_cells(
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
