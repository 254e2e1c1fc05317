from collections import Counter

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink_lab.reproduce.published_tables import Cell, published_table, published_tables
from polyplink_lab.reproduce.standing import STANDINGS, standing

# Cells in each table, counted by hand: rows times columns of the printed table.
COUNTS = {
    "ntssl/1": 18 * 9,
    "ntssl/2": 6 * 7,
    "ta/1": 5 * 2,
    "ta/2": 5 * 2,
    "ta/3": 5 * 2,
    "thesis/5.3": 6 * 2,
    "thesis/5.8": 6 * 3,
    "thesis/5.11": 3 * 4,
    "thesis/5.12": 8 * 6,
    "thesis/5.13": 12 * 6,
    "thesis/A.19": 4 * 2,
    "thesis/A.20": 4 * 3,
}
COUNTS |= {f"thesis/{t}": 6 * 4 for t in ("5.1", "5.2", "5.4", "5.5")}
COUNTS |= {f"thesis/{t}": 6 * 6 for t in ("5.6", "5.7", "5.9", "5.10")}
COUNTS |= {f"thesis/5.{n}": 4 * 4 for n in range(14, 24)}
COUNTS |= {f"thesis/A.{n}": 4 * 4 for n in (*range(1, 14), 17, 18)}
COUNTS |= {f"thesis/A.{n}": 4 * 6 for n in (14, 15, 16)}

# Typed from the papers, not copied from the file: table, group, row, column, value, spread.
TYPED = [
    ("ntssl/1", "Self-supervised", "Ours", "mAP", "63.13", ""),
    ("ntssl/1", "Self-supervised", "SFE", "AUPR", "46.13", ""),
    ("ntssl/1", "General purpose", "DinoV2-g/14", "FLOPs", "2331", ""),
    ("ntssl/1", "Endoscopy", "EndoFM", "F1-Score", "75.15", ""),
    ("ntssl/1", "Fully supervised", "TA", "Acc", "73.29", ""),
    ("ntssl/2", "Top", "neither", "mAP", "54.92", ""),
    ("ntssl/2", "Bottom", "tracklet", "HR@1", "91.17", ""),
    ("ta/1", "", "Ours", "FR", "2.32", "1.80"),
    ("ta/1", "", "No clustering", "FR", "20.74", "20.78"),
    ("ta/2", "", "28 views, 2 polyps", "FPR", "0.0317", "0.0557"),
    ("ta/3", "Clustering", "Temporally-aware, AP", "FR", "4.18", "2.86"),
    ("thesis/5.1", "EndoFM-LV", "psi = 3", "AUPR", "0.182", ""),
    ("thesis/5.2", "SurgeNet", "Full size", "AUROC", "0.792", ""),
    ("thesis/5.4", "EndoFM-LV, fragments of 32", "psi = 10", "AUPR", "0.200", ""),
    ("thesis/5.6", "EndoFM", "psi = 5", "mAP", "0.458", ""),
    ("thesis/5.7", "SurgeNet", "psi = 5", "mAP", "0.48", ""),
    ("thesis/5.9", "EndoFM-LV, fragments of 32", "psi = 1", "HR@5", "0.845", ""),
    ("thesis/5.11", "", "Temporally-aware", "Test Top-5", "98.56", ""),
    ("thesis/5.12", "Intra-Inter", "AUPR", "5", "0.382", ""),
    ("thesis/5.13", "Intra-Inter", "mAP", "10", "0.598", ""),
    ("thesis/5.14", "", "Supervised", "FR", "1.920", "1.296"),
    ("thesis/5.18", "", "Intra inter", "FPR", "0.158", "0.238"),
    ("thesis/5.23", "", "Pretrained", "AssRe", "0.625", "0.252"),
    ("thesis/A.3", "", "EndoViT", "Recall", "1", "0"),
    ("thesis/A.7", "", "SurgeNet", "IDF1", "0.401", "0.166"),
    ("thesis/A.12", "psi = 5, fragments of 8", "SurgeNet", "AUROC", "0.764", ""),
    ("thesis/A.20", "Full size, whole tracklets", "Supervised", "mAP", "0.622", ""),
]


def cell_of(table: str, group: str, row: str, column: str) -> Cell:
    cells = [
        c
        for c in published_tables()[table].cells
        if (c.group, c.row, c.column) == (group, row, column)
    ]
    assert len(cells) == 1
    return cells[0]


def test_every_published_table_has_all_its_cells() -> None:
    assert list(published_tables()) == [
        "ntssl/1",
        "ntssl/2",
        *(f"ta/{n}" for n in range(1, 4)),
        *(f"thesis/5.{n}" for n in range(1, 24)),
        *(f"thesis/A.{n}" for n in range(1, 21)),
    ]
    assert {name: len(table.cells) for name, table in published_tables().items()} == COUNTS


def test_cells_equal_those_typed_from_the_papers() -> None:
    for table, group, row, column, text, spread in TYPED:
        cell = cell_of(table, group, row, column)
        assert (cell.text, cell.value, cell.spread) == (text, float(text), spread), cell


def test_cells_are_unique_and_in_range() -> None:
    for table in published_tables().values():
        places = Counter((c.group, c.row, c.column) for c in table.cells)
        assert max(places.values()) == 1, table.name
        for cell in table.cells:
            top = {"%": 100.0, "M": 2000.0, "G": 2500.0}.get(cell.unit, 30.0)
            assert 0.0 <= cell.value <= top
            if cell.unit == "1" and not cell.measure.endswith("/FR"):
                assert cell.value <= 1.0


def test_copying_mistakes_of_the_papers_have_remarks() -> None:
    # SurgeNet in thesis 5.5 equals EndoFM-LV at 32 frames in 5.4 in every digit.
    def column(table: str, group: str) -> list[Cell]:
        return [c for c in published_tables()[table].cells if c.group == group]

    copied = column("thesis/5.5", "SurgeNet, fragments of 8")
    original = column("thesis/5.4", "EndoFM-LV, fragments of 32")
    assert [c.text for c in copied] == [c.text for c in original]
    assert all("copying mistake" in c.remark for c in [*copied, *original])
    assert not any(
        cell.remark for cell in published_tables()["ntssl/2"].cells
    )  # its marks have a meaning
    assert "SUN-SEG" in cell_of("ntssl/1", "Endoscopy", "EndoFM", "F1-Score").remark


def test_cells_printed_twice_are_equal_or_have_a_remark() -> None:
    """Cells with the same subject, crop, clip and measure in two tables of the thesis."""
    first_cells: dict[tuple[object, ...], Cell] = {}
    differences = 0
    for name, table in published_tables().items():
        if not name.startswith("thesis/") or name == "thesis/5.11":
            continue
        for cell in table.cells:
            key = (cell.subject, cell.crop, cell.clip, cell.measure)
            first = first_cells.setdefault(key, cell)
            if abs(first.value - cell.value) > 1e-9:
                differences += 1
                assert first.remark or cell.remark, (name, cell)
    assert differences  # the thesis has some


def test_counting_cells_use_the_rates_of_the_programs() -> None:
    """Means over all procedures, with pairs twice and self-pairs (`counting_figures.rates`)."""
    columns_and_rates = {
        (cell.column, cell.measure.rpartition("/")[2])
        for table in published_tables().values()
        for cell in table.cells
        if cell.column in {"FR", "FPR", "Precision", "Recall"} and cell.row != "No clustering"
    }
    rates = ("FR", "FPR as published", "precision with self", "recall with self")
    assert columns_and_rates == set(zip(("FR", "FPR", "Precision", "Recall"), rates, strict=True))


def test_bold_cells_are_those_of_temporally_aware_counting() -> None:
    """FR and FPR of one row per table, two in the third: the best of their captions."""
    for name, bold_rows in (("ta/1", 1), ("ta/2", 1), ("ta/3", 2)):
        cells = [cell for cell in published_table(name).cells if cell.bold]
        assert [cell.column for cell in cells] == ["FR", "FPR"] * bold_rows
        assert {(cell.text, cell.spread) for cell in cells} == {
            ("2.32", "1.80"),
            ("0.0225", "0.0420"),
        }
        worse = [c for c in published_table(name).cells if c.column == "FR" and not c.bold]
        assert min(cell.value for cell in worse) > 2.32
    assert sum(cell.bold for table in published_tables().values() for cell in table.cells) == 8


def test_every_cell_is_exact_inferred_or_unavailable() -> None:
    cells = [
        (name, cell, *standing(cell)) for name, t in published_tables().items() for cell in t.cells
    ]
    assert len(cells) == 1128
    count = Counter(kind for _, _, kind, _ in cells)
    assert set(count) == set(STANDINGS)
    for name, cell, kind, reason in cells:
        assert bool(reason) == (kind != "exact")
        counted = cell.measure.startswith("cost/") or cell.subject == "none"
        assert (kind == "exact") == counted
        if cell.measure.startswith(("size/", "histology/")):
            assert "--split" in reason
        if name == "thesis/5.11":
            assert (kind, reason.split()[-1]) == ("unavailable", "procedures")
    assert count["exact"] == 36 + 2
    assert count["unavailable"] == 12 + 12 + 12  # thesis/5.11 and two copied columns


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PolyplinkError, match=r"did you mean thesis/5\.4"):
        published_table("thesis/5.04")
    assert published_table("ta/3").subjects[-1] == "ta384-temporally-aware"
