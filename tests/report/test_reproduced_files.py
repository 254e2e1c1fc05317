import csv
from pathlib import Path

from polyplink.report.reproduced_files import CSV_COLUMNS, html, latex, tex, write_reproduced
from tests.report.reproduced_sample import sample


def test_csv_has_full_precision_and_says_what_is_not_comparable(tmp_path: Path) -> None:
    write_reproduced(tmp_path, sample())
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert (rows[0]["published"], rows[0]["ours"], rows[0]["low"]) == ("63.13", "61.5", "58.25")
    assert rows[0]["not_comparable"] == "SIMULATED data"
    assert (rows[2]["ours"], rows[2]["units"]) == ("", "")
    assert rows[2]["missing"].startswith("weights of endofm")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "table.csv",
        "table.html",
        "table.tex",
    ]


def test_html_escapes_and_warns() -> None:
    page = html(sample())
    assert "Endo&lt;FM&gt;" in page
    assert "Endo<FM>" not in page
    assert 'class="banner"' in page
    assert "Not computed" in page
    assert "http" not in page  # nothing is loaded
    assert 'class="banner"' not in html(sample(""))


def test_latex_escapes_and_has_a_row_for_each_cell() -> None:
    text = latex(sample())
    row = r"Self \& others & Ours & mAP & 63.13 & 61.50 [58.25, 64.00] & $-$1.63 & 19 procedures \\"
    assert row in text
    assert r"Endo$<$FM$>$ & mAP & 63.13 & -- & -- &  \\" in text  # no units of no figure
    assert r"(mAP): weights of endofm are missing; add them." in text
    assert r"2.32 $\pm$ 1.8" in text
    assert text.count(r" \\") == 3 + 1  # cells and the head
    assert "SIMULATED data" in text
    assert tex("a_b 5% \\") == r"a\_b 5\% \textbackslash{}"
