from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.sets.facts import Facts, parse_facts, read_facts, read_rows
from polyplink.data.sets.sun import CLASSES
from polyplink.data.vocabulary import ADENOMA
from tests.data.spreadsheets import spreadsheet

CASES = (
    "Case,Shape,SIZE,location,pathology,patient,frames\r\n"
    "1,Is,6mm,Cecum,Low-grade adenoma,p1,\r\n"
    "case007,IIa(LST-NG), 15mm- ,A,SSL,,\r\n"
    "8,,2.5,,Sessile serrated lesion,p1,\r\n"
    "Video09.mp4,,,Sigma,IC,,\r\n\r\n"
)
LABELS = (
    "Video_ID,Polyp_Size,Paris_Classification,Age,Gender,Endoscope_Model,Pathological type\r\n"
    "01,11.74mm,Is,61,Male,CF-HQ290I,hp\r\nVideo02, 2.8 mm ,,,,,\r\n"
)


def parse(
    text: str, strict: bool = False, columns: tuple[str, ...] = ()
) -> tuple[Facts, list[str]]:
    faults = Faults(strict)
    rows = read_rows(text.encode("utf-8-sig"), "x.csv")
    return parse_facts(rows, "x.csv", columns, CLASSES, faults), [*map(str, faults.messages)]


def test_values_are_parsed_from_words_and_abbreviations() -> None:
    read, warnings = parse(CASES, columns=("size_mm", "age"))
    low, cancer = "Low-grade adenoma", "Invasive cancer (T1b)"
    adenoma = {"histology": low, "histology_class": low}
    serrated = {"morphology": "IIa(LST-NG)", "histology": "SSL", "histology_class": "SSL"}
    lesion = {"histology": "Sessile serrated lesion", "histology_class": "SSL"}
    assert read == {
        1: {"patient": "p1", "morphology": "Is", "size_mm": 6, "location": "cecum", **adenoma},
        7: {"size_mm": 15, "location": "ascending", **serrated},
        8: {"patient": "p1", "size_mm": 2.5, **lesion},
        9: {"location": "sigma", "histology": "IC", "histology_class": cancer},
    }
    assert warnings == [
        "1 x column that x.csv lacks, its values null (age)",
        "1 x unknown column of x.csv, not read (frames)",
        "1 x size that is a lower bound, used as the size (x.csv, recording 'case007' (15mm-))",
    ]
    assert set(CLASSES.values()) == set(ADENOMA["sun"])


def test_columns_are_recognised_by_words_of_their_header(tmp_path: Path) -> None:
    read, warnings = parse(LABELS)
    assert warnings == []
    hyperplastic = {"histology": "hp", "histology_class": "Hyperplastic polyp"}
    facts = {"morphology": "Is", "age": 61, "sex": "Male", "brand": "CF-HQ290I"}
    assert read == {1: {"size_mm": 11.74, **facts, **hyperplastic}, 2: {"size_mm": 2.8}}
    assert parse(LABELS.replace(",", ";"))[0] == read
    assert parse("video id;polyp size (mm);sex\n3.0;4;F\n")[0] == {3: {"size_mm": 4, "sex": "F"}}
    with pytest.raises(PolyplinkError, match=r"x\.csv has no column video_id or case; add one"):
        parse("imgdir\n01_0.27_.png\n")
    with pytest.raises(PolyplinkError, match=r"none\.csv is missing; check the path"):
        read_facts(tmp_path / "none.csv", (), CLASSES, Faults())


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("x,5mm,61,HP", "row without a recording"),
        (",5mm,61,HP", "row without a recording"),
        ("1,5mm,61,HP", "second row of a recording"),
        ("3,large,61,HP", "size that is not a number"),
        ("3,-5mm,61,HP", "size that is not a number"),
        ("3,5mm,old,HP", "age that is not a number"),
        ("3,5mm,61,Adenoma?", "unknown pathology, histology class null"),
    ],
)
def test_values_that_cannot_be_read_are_counted(row: str, kind: str) -> None:
    text = f"case,size,age,pathology\n1,5mm,60,HP\n{row}\n"
    read, warnings = parse(text)
    hyperplastic = {"histology": "HP", "histology_class": "Hyperplastic polyp"}
    assert read[1] == {"size_mm": 5, "age": 60, **hyperplastic}
    (warning,) = warnings
    assert warning.startswith(f"1 x {kind}")
    if row.endswith("?"):
        assert read[3]["histology"] == "Adenoma?"
        return
    with pytest.raises(PolyplinkError, match=kind):
        parse(text, strict=True)


def test_a_spreadsheet_is_read_as_texts_or_refused() -> None:
    content = spreadsheet()
    rows = read_rows(content, "X.XLSX")
    assert rows[0] == ["Video_ID", "", "Polyp_Size"]
    read = parse_facts(rows, "x.xlsx", (), {}, Faults())
    assert read == {7: {"size_mm": 5.5}, 8: {"size_mm": 11.74}}
    numbered = '<row><c t="inlineStr"><is><t>case</t></is></c><c><v>12</v></c></row>'
    assert read_rows(spreadsheet(row=numbered), "x.xlsx")[-1][:2] == ["case", "12"]  # not 12.0
    for data in (b"", b"PK", content[:400], b"a,b\n1,2\n"):
        with pytest.raises(PolyplinkError, match=r"x\.xlsx is not a valid \.xlsx file .*as CSV"):
            read_rows(data, "x.xlsx")


@pytest.mark.parametrize(
    ("row", "text", "message"),
    [
        ('<row r="9"><c r="XFD1048576"><v>1</v></c></row>', "", "1048576 rows x 16384 columns"),
        ('<row r="1000000"><c><v>1</v></c><c><v>1</v></c></row>', "", "1000000 rows x 3 columns"),
        ("<row>" + "<c t='s'><v>0</v></c>" * 4000 + "</row>", "x" * 80_000, "texts that cells"),
        ('<row><c s=">" r="XFD1048576"><v>1</v></c></row>', "", "a broken tag"),
    ],
)
def test_a_small_spreadsheet_that_expands_too_much_is_refused(
    row: str, text: str, message: str
) -> None:
    data = spreadsheet(row=row, text=text)
    assert len(data) < 4000
    with pytest.raises(PolyplinkError, match=message):
        read_rows(data, "x.xlsx")
    formatted = spreadsheet(row='<row r="1048576"><c r="XFD1048576" s="1"/></row>')
    assert read_rows(formatted, "x.xlsx") == read_rows(spreadsheet(), "x.xlsx")


def test_sizes_in_centimetres_are_not_read_as_millimetres() -> None:
    read, warnings = parse("Case,Size (cm)\n1,1.2\n", columns=("size_mm",))
    assert read == {1: {}}
    assert warnings == [
        "1 x column that x.csv lacks, its values null (size_mm)",
        "1 x unknown column of x.csv, not read (Size (cm))",
    ]
