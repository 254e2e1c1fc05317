import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from polyplink.report.figures import Comparison, Figure, Method, Metric
from polyplink.report.tables import CSV_COLUMNS, comparison_tables, count_table, write_csv
from tests.report.sample import comparison, report


def shown(*tables: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=120)
    for table in tables:
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_tables_show_figures_intervals_and_differences() -> None:
    text = shown(*comparison_tables(comparison()))
    for words in (
        "Retrieval",
        "Counting",
        "FPR (self-pairs counted)",
        "n = 19 procedures",
        "n = 10 polyps",
        "0.700",
        "0.600 to 0.800",
        "Δ +0.200 (0.100 to 0.300)",
        "Δ −0.050 (−0.100 to 0.020)",
    ):
        assert words in text


def test_only_what_is_borne_out_is_bold() -> None:
    retrieval, counting = comparison_tables(comparison())
    cells = [str(cell.style) for cell in retrieval.columns[1].cells]  # type: ignore[union-attr]
    assert cells == ["", "bold"]
    cells = [str(cell.style) for cell in counting.columns[1].cells]  # type: ignore[union-attr]
    assert cells == ["", ""]


def test_names_are_not_read_as_markup() -> None:
    metric = Metric("m", "[red]m[/red]", "[b]group[/b]", 1.0)
    table = Comparison((metric,), (Method("[link=x]a[/link]", {"m": Figure(None)}),))
    text = shown(*comparison_tables(table))
    assert "[red]m[/red]" in text
    assert "[link=x]a[/link]" in text
    assert "[b]group[/b]" in text
    assert "–" in text


def test_count_table_has_truth_only_where_known() -> None:
    given = report()
    text = shown(count_table(given))
    assert "true" in text
    rows = [line.split() for line in text.splitlines() if "│ p" in line]
    assert [[cell for cell in row if cell != "│"] for row in rows] == [
        ["p0", "5", "3", "2", "1"],
        ["p1", "5", "3", "2", "1"],
    ]
    unknown = tuple(replace(p, n_polyps=None) for p in given.procedures)
    assert "true" not in shown(count_table(replace(given, procedures=unknown)))
    mixed = (replace(given.procedures[0], n_polyps=None), given.procedures[1])
    assert "–" in shown(count_table(replace(given, procedures=mixed)))


def test_csv_can_be_read_back_with_full_precision(tmp_path: Path) -> None:
    third = 1 / 3
    metric = Metric("m", "mAP", "Retrieval", 1.0)
    methods = (
        Method("a, or b", {"m": Figure(third, 0.1, 0.5, 19)}),
        Method("c", {"m": Figure(float("nan"), why="one polyp only")}, {}),
        Method("d", {"m": Figure(0.5)}, {"m": Figure(0.5 - third, -0.1, 0.4)}),
    )
    write_csv(tmp_path / "figures.csv", Comparison((metric,), methods))
    with (tmp_path / "figures.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert rows[0]["method"] == "a, or b"
    assert float(rows[0]["value"]) == third
    assert (rows[0]["units"], rows[0]["unit"], rows[0]["missing"]) == ("19", "procedures", "")
    assert (rows[1]["value"], rows[1]["missing"]) == ("", "one polyp only")
    assert float(rows[2]["difference"]) == pytest.approx(0.5 - third)
    assert [path.name for path in tmp_path.iterdir()] == ["figures.csv"]
