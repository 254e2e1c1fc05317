from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.sets.sun_cases import SunCase, read_cases
from polyplink.data.vocabulary import ADENOMA


def read(folder: Path, text: str) -> tuple[dict[int, SunCase], list[str]]:
    (folder / "cases.csv").write_text(text, encoding="utf-8-sig")
    faults = Faults()
    return read_cases(folder / "cases.csv", faults), faults.lines()


def test_words_and_abbreviations(tmp_path: Path) -> None:
    cases, warnings = read(
        tmp_path,
        "Case,Shape,SIZE,location,pathology,patient\r\n"
        "1,Is,6mm,Cecum,Low-grade adenoma,p1\r\n"
        "case007,IIa(LST-NG), 15mm- ,A,SSL,\r\n"
        "8,,2.5,,Sessile serrated lesion,p1\r\n"
        "9,,,Sigma,IC,\r\n",
    )
    assert cases == {
        1: SunCase("p1", "Is", 6, "cecum", "Low-grade adenoma", "Low-grade adenoma"),
        7: SunCase(None, "IIa(LST-NG)", 15, "ascending", "SSL", "SSL"),
        8: SunCase("p1", None, 2.5, None, "Sessile serrated lesion", "SSL"),
        9: SunCase(None, None, None, "sigma", "IC", "Invasive cancer (T1b)"),
    }
    assert warnings == [
        "1 x size that is a lower bound, taken as the number "
        "(first: cases.csv, case case007 (15mm-))"
    ]
    classes = {case.histology_class for case in cases.values()}
    assert classes <= set(ADENOMA["sun"])


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("x,5mm,HP", "row of no case"),
        (",5mm,HP", "row of no case"),
        ("1,5mm,HP", "second row of a case"),
        ("2,large,HP", "size that is no number"),
        ("2,-5mm,HP", "size that is no number"),
        ("2,5mm,Adenoma?", "pathology of no known class"),
    ],
)
def test_rows_that_cannot_be_read_are_counted(tmp_path: Path, row: str, kind: str) -> None:
    cases, warnings = read(tmp_path, f"case,size,pathology\n1,5mm,HP\n{row}\n")
    assert cases[1] == SunCase(None, None, 5, None, "HP", "Hyperplastic polyp")
    assert [line.split(", left out")[0] for line in warnings] == [f"1 x {kind}"]
    with pytest.raises(PolyplinkError, match=kind):
        read_cases(tmp_path / "cases.csv", Faults(strict=True))


def test_mistakes_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"cases\.csv is missing"):
        read_cases(tmp_path / "cases.csv", Faults())
    with pytest.raises(PolyplinkError, match="has no column 'case'; its columns: case, patient"):
        read(tmp_path, "number,size\n1,2\n")
    assert read(tmp_path, "case,frames\n1,200\n")[1] == [
        "1 x column of the table of cases that is not known, not read (first: frames)"
    ]
