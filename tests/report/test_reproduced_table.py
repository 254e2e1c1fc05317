import csv
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.intervals import Figure
from polyplink.report.latex import comparison_latex
from polyplink_lab.reproduce.reproduced_table import (
    ReproducedCell,
    ReproducedTable,
    latex,
    places,
    reproduced_table,
    states_table,
    write_reproduced,
)
from tests.report.sample import comparison, print_table


def cell(
    row: str, column: str, ours: Figure, text: str = "63.13", **changes: object
) -> ReproducedCell:
    fields = {"spread": "", "difference": None, "remark": ""} | changes
    return ReproducedCell(
        group="Self & others",
        row=row,
        column=column,
        unit="%",
        published=text,
        ours=ours,
        units_of="procedures",
        **fields,  # type: ignore[arg-type]
    )


def sample(incomparable: str = "SIMULATED data") -> ReproducedTable:
    missing = Figure(None, why="weights of endofm are missing; add them")
    cells = (
        cell("Ours", "mAP", Figure(61.5, 58.25, 64.0, 19), difference=-1.63, best=True),
        cell("Ours", "FR", Figure(2.4, n=19, sd=1.75), "2.32", spread="1.80", published_bold=True),
        cell("Endo<FM>", "mAP", missing, remark="odd"),
    )
    return ReproducedTable(
        "ntssl/1", "a paper, table 1", "Encoders", "eval", incomparable, False, cells
    )


def test_the_table_shows_published_and_computed_numbers() -> None:
    text = print_table(reproduced_table(sample("")))
    for words in ("61.50 (58.25 to 64.00)", "−1.63", "2.32 ± 1.80", "2.40 ± 1.75", "63.13*"):
        assert words in text
    assert "SIMULATED" not in text
    assert "SIMULATED" in print_table(reproduced_table(sample()))


def test_reasons_and_remarks_name_their_cells() -> None:
    result = sample()
    assert result.computed == 2
    ((reason, cells),) = result.reasons.items()
    assert reason.startswith("weights of endofm")
    assert places(cells) == places(cells * 2) == "Self & others: Endo<FM> (mAP)"
    assert list(result.remarks) == ["odd"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reproduced")
    write_reproduced(out, sample())
    return out


def test_csv_has_full_precision_and_why_figures_are_not_comparable(folder: Path) -> None:
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert " ".join(rows[0]) == (
        "table group row column unit published published_spread published_bold ours low high "
        "spread best units units_of difference not_comparable missing remark stand_in"
    )
    assert (rows[0]["published"], rows[0]["ours"], rows[0]["low"]) == ("63.13", "61.5", "58.25")
    assert rows[0]["not_comparable"] == "SIMULATED data"
    assert (rows[2]["ours"], rows[2]["units"]) == ("", "")
    assert rows[2]["missing"].startswith("weights of endofm")
    assert sorted(path.suffix for path in folder.iterdir()) == [".csv", ".html", ".tex"]


def test_bold_cells_of_the_paper_are_bold(folder: Path) -> None:
    assert "<b>2.32 ± 1.80</b>" in (folder / "table.html").read_text(encoding="utf-8")
    assert "<b>63.13" not in (folder / "table.html").read_text(encoding="utf-8")
    assert r"\textbf{2.32 $\pm$ 1.80}" in (folder / "table.tex").read_text(encoding="utf-8")
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        assert [row["published_bold"] for row in csv.DictReader(file)] == ["False", "True", "False"]


def test_the_page_is_escaped_and_has_a_warning(folder: Path) -> None:
    page = (folder / "table.html").read_text(encoding="utf-8")
    assert "Endo&lt;FM&gt;" in page
    assert "Endo<FM>" not in page
    assert page.count('class="banner"') == 1
    assert page.count("<tr") == 1 + 3
    assert page.count("Self &amp; others</td>") == 2  # once per row of the table
    for words in ("61.50 (58.25 to 64.00)", "Not computed", 'class="missing" title="weights of'):
        assert words in page
    assert "http" not in page  # nothing is loaded


def compiles(text: str, folder: Path) -> bool:
    """Whether a document that inputs the table compiles."""
    (folder / "table.tex").write_text(text, encoding="utf-8")
    rules = "".join(rf"\let\{rule}rule\hline" for rule in ("top", "mid", "bottom"))
    booktabs = rf"\IfFileExists{{booktabs.sty}}{{\usepackage{{booktabs}}}}{{{rules}}}"
    lines = (r"\documentclass{article}", booktabs, r"\begin{document}")
    (folder / "paper.tex").write_text("\n".join([*lines, r"\input{table}", r"\end{document}"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_latex_is_escaped_and_compiles(tmp_path: Path) -> None:
    text = latex(sample())
    assert r"Ours (published) & 63.13" in text
    assert r"ours & \textbf{61.50 (58.25 to 64.00)}" in text
    assert r"(mAP): weights of endofm are missing; add them." in text
    assert r"2.32 $\pm$ 1.80" in text
    assert "SIMULATED data" in text
    table = text[: text.index(r"\end{tabular}")]
    widths = {line.count(" & ") for line in table.splitlines() if " & " in line}
    assert len(widths) == 1
    if shutil.which("pdflatex"):
        assert compiles(text, tmp_path)
        assert compiles(comparison_latex(comparison()), tmp_path)
        assert not compiles(text.replace(r"\end{tabular}", ""), tmp_path)


def test_headline_columns_are_selected_by_name() -> None:
    text = comparison_latex(comparison().with_headline(["FPR"]))
    assert r" & FPR \\" in text
    assert r"second & 0.050 \\" in text
    assert r"\textbf{0.700 (0.600 to 0.800)}" in comparison_latex(comparison())
    method = replace(comparison().methods[0], name="[a]_*")
    named = comparison_latex(replace(comparison(), methods=(method,)))
    assert "\n{[}a]\\_{*} & " in named  # LaTeX would read [a] as an option of the line before
    with pytest.raises(PolyplinkError, match="no figure 'mpa'; --columns takes mAP, FPR"):
        comparison().with_headline(["mpa"])


def test_the_list_of_tables_shows_what_each_needs() -> None:
    state = {
        "name": "ta/1",
        "cells": 10,
        "standings": {"exact": 2, "inferred": 7, "unavailable": 1},
        "data": "rc19",
        "recipes": ["ta384-tpc"],
        "weights": ["endofm"],
        "runs": "in part",
        "missing": {"endofm": "not here; add it"},
    }
    complete = {**state, "name": "ta/2", "missing": {"endofm": "", "ta384-tpc": ""}}
    text = print_table(states_table([state, complete]))
    assert "all of them" in text
    assert all(part in text for part in ("ta/1", "10", "2 7 1", "ta384-tpc", "in part", "endofm"))


def test_rankings_are_listed_as_published_and_as_computed() -> None:
    cells = [
        cell(row, "FR", Figure(value, n=19), text)
        for row, text, value in (("a", "1.8", 2.5), ("b", "2.0", 1.4), ("c", "2.1", None))
    ]
    table = ReproducedTable("thesis/A.17", "", "", "rc19", "", False, tuple(cells), "", "FR")
    (line,) = table.rankings
    assert line == "ranking by FR (Self & others): published a, b, c; ours b, a"
    auroc = replace(
        table,
        ranked_by="AUROC",
        cells=tuple(
            replace(c, column="AUROC", ours=replace(c.ours, value=share))
            for c, share in zip(cells, (0.9, 0.8, None), strict=True)
        ),
    )
    assert auroc.rankings[0].endswith("ours a, b")  # larger AUROC is better
    tied = replace(table, cells=tuple(replace(c, ours=cells[0].ours) for c in cells))
    assert tied.rankings[0].endswith("ours a = b = c")
    assert replace(table, ranked_by="").rankings == []
    assert line in latex(table).replace(r"\&", "&")
