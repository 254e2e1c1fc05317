import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.text import Text

from polyplink.core.results import Result
from polyplink.evaluate.intervals import Figure
from polyplink.report.comparison import Comparison, FigureColumn, Method
from polyplink.report.formats import Texts, interval, number, reason, signed
from polyplink.report.printed_tables import (
    comparison_table,
    difference_table,
    matches_table,
    probe_table,
    write_csv,
)
from tests.report.sample import comparison, print_table


def test_a_comparison_without_values_is_not_measured() -> None:
    table = comparison()
    assert table.measured
    undefined = {"mAP": Figure(None, why="no polyp has two tracklets")}
    assert not replace(table, methods=(Method("first", undefined),)).measured


def test_figures_of_probes_alone_are_the_first_figures() -> None:
    table = replace(comparison(), headline=("AUROC", "links/exact"))  # none of them measured
    assert table.first_metrics == list(table.metrics)
    assert replace(table, headline=("AUROC", "FPR")).first_metrics == [table.metrics[1]]


def test_a_comparison_table_fits_a_narrow_terminal() -> None:
    table = comparison_table(comparison())
    styles = [
        [str(cell.style) for cell in column.cells if isinstance(cell, Text)]
        for column in table.columns[1:-1]
    ]
    assert [column.count("bold") for column in styles] == [0, 1]  # significantly different
    text = print_table(table, width=80)
    assert "…" not in text
    for words in ("Retrieval", "Counting", "(self-pairs counted)", "0.700", "0.600 to 0.800"):
        assert words in text
    for name in (method.name for method in comparison().methods):
        assert name in text
    assert {line.split("│")[-2].strip() for line in text.splitlines() if "│" in line} >= {
        "19",
        "10 polyps",
    }


def test_names_are_not_interpreted_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    metric = FigureColumn("m", "[red]m[/red]", "[b]group[/b]", 1.0)
    table = Comparison((metric,), (Method("[link=x]a[/link]", {"m": Figure(None)}),))
    text = print_table(comparison_table(table))
    assert "[red]m[/red]" in text
    assert "[link=x]a[/link]" in text
    assert "[b]group[/b]" in text
    assert "–" in text
    text = print_table(difference_table({"[b]a[/b]": {"[i]m[/i]": Figure(0.1)}}))
    assert "[b]a[/b]" in text
    assert "[i]m[/i]" in text
    match = {"similarity": 0.5, "start_s": 1.0, "size_mm": None, "histology": "[LGD] [/x]"}
    match |= {"procedure_id": "[i]p", "tracklet_id": "[/t]"}
    Result(None, printed=[matches_table("like frame[a].png", [match])]).print_text()
    text = capsys.readouterr().out
    assert all(name in text for name in ("like frame[a].png", "[LGD] [/x]", "[i]p", "[/t]"))


def test_a_caption_names_intervals_only_if_some_are_shown() -> None:
    metric = FigureColumn("m", "m", "group", 1.0)
    for figure in (Figure(0.6, n=2, sd=0.1), Figure(0.6, 0.5, 0.7, n=6)):
        of_methods = comparison_table(Comparison((metric,), (Method("a", {"m": figure}),)))
        for table in (of_methods, difference_table({"a": {"m": figure}})):
            assert str(table.caption).startswith("95 % intervals") is (figure.low is not None)


def test_a_difference_is_bold_from_six_procedures_on() -> None:
    for n, bold in ((5, False), (6, True)):
        table = difference_table({"other": {"mAP": Figure(0.2, 0.1, 0.3, n=n)}})
        (cell,) = table.columns[1].cells
        assert isinstance(cell, Text)
        assert (cell.style == "bold") is bold
        assert ("the interval excludes 0" in str(table.caption)) is bold


def test_csv_has_full_precision_and_reasons(tmp_path: Path) -> None:
    third = 1 / 3
    metric = FigureColumn("m", "mAP", "Retrieval", 1.0)
    methods = (
        Method("a, or b", {"m": Figure(third, 0.1, 0.5, n=19)}),
        Method("c", {"m": Figure(float("nan"), why="one polyp only")}, {}),
        Method("d", {"m": Figure(0.5)}, {"m": Figure(0.5 - third, -0.1, 0.4)}),
    )
    write_csv(tmp_path / "figures.csv", Comparison((metric,), methods))
    with (tmp_path / "figures.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert " ".join(rows[0]) == (
        "method group metric style value low high sd units unit difference difference_low "
        "difference_high missing bold"
    )
    assert rows[0]["method"] == "a, or b"
    assert float(rows[0]["value"]) == third
    assert (rows[0]["units"], rows[0]["unit"], rows[0]["missing"]) == ("19", "procedures", "")
    assert (rows[1]["value"], rows[1]["missing"]) == ("", "one polyp only")
    assert float(rows[2]["difference"]) == pytest.approx(0.5 - third)
    assert [path.name for path in tmp_path.iterdir()] == ["figures.csv"]


def test_a_probe_table_has_values_intervals_and_units() -> None:
    figures = {"F1": Figure(0.7, 0.6, 0.8, 57), "AUROC": Figure(None)}
    text = print_table(probe_table("size", figures, dict.fromkeys(figures, "what it means")))
    assert all(part in text for part in ("size", "0.700", "0.600 to 0.800", "57", "polyps"))
    assert "what it means" in text
    assert "None" not in text


def test_numbers_have_fixed_digits_and_minus_signs_and_missing_ones_a_dash() -> None:
    assert (number(0.12349), number(-1.5, 1)) == ("0.123", "−1.5")
    assert (signed(0.5, 2), signed(-0.5, 2)) == ("+0.50", "−0.50")
    for small in (0.0, -0.0, -0.0001, 0.0001):
        assert number(small) == signed(small) == "0.000"
    for missing in (None, math.nan, math.inf):
        assert number(missing) == signed(missing) == "–"
    assert interval(Figure(0.5)) == interval(Figure(None, 0.4, 0.6)) == ""
    assert reason(Figure(0.5)) == ""
    assert "undefined" in reason(Figure(math.nan))
    t, german = Texts(), Texts("de")
    assert (t.moment(1500, None), t.moment(90_025, 25.0)) == ("frame 1500", "1:00:01")
    durations = ["12.3 ms", "3.2 s", "3:00 min", "59:59 min", "1:00:00 h"]
    assert [t.duration(s) for s in (0.0123, 3.21, 180, 3599.4, 3599.5)] == durations
    assert (german.duration(3.21), german.number(-0.5, 2)) == ("3,2 s", "−0,50")
    assert (t.count(5, 4, 6), german.count(5, 4, 6)) == ("5 (4 to 6)", "5 (4 bis 6)")
    assert t.count(5, 5, 5) == t.count(5, None, None) == "5"
