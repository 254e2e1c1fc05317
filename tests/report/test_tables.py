import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from polyplink.report.figures import Comparison, Figure, Method, Metric
from polyplink.report.tables import CSV_COLUMNS, comparison_table, count_table, write_csv
from tests.report.sample import comparison, report


def shown(*tables: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=120)
    for table in tables:
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_figures_and_intervals() -> None:
    text = shown(comparison_table(comparison()))
    for words in ("Retrieval", "Counting", "(self-pairs counted)", "0.700", "0.600 to 0.800"):
        assert words in text
    for name in (method.name for method in comparison().methods):
        assert name in text
    assert {line.split("│")[-2].strip() for line in text.splitlines() if "│" in line} >= {
        "19",
        "10 polyps",
    }


def test_only_what_is_borne_out_is_bold() -> None:
    table = comparison_table(comparison())
    styles = [
        [str(cell.style) for cell in column.cells if isinstance(cell, Text)]
        for column in table.columns[1:-1]
    ]
    assert [column.count("bold") for column in styles] == [0, 1]


def test_it_fits_a_terminal_of_80_columns() -> None:
    three = comparison()
    three = replace(three, methods=(*three.methods, replace(three.methods[1], name="a third one")))
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison_table(three))
    assert isinstance(console.file, io.StringIO)
    assert "…" not in console.file.getvalue()
    assert "0.600 to 0.800" in console.file.getvalue()


def test_names_are_not_read_as_markup() -> None:
    metric = Metric("m", "[red]m[/red]", "[b]group[/b]", 1.0)
    table = Comparison((metric,), (Method("[link=x]a[/link]", {"m": Figure(None)}),))
    text = shown(comparison_table(table))
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
