import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.xlsx import read_xlsx, write_xlsx

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

# As spreadsheet programs write it: shared strings, some with formats, gaps, an absolute target.
PARTS = {
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELS}"><sheets>'
    '<sheet name="Labels" sheetId="4" r:id="rId9"/><sheet name="b" sheetId="1" r:id="rId1"/>'
    "</sheets></workbook>",
    "xl/_rels/workbook.xml.rels": "<Relationships "
    'xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/>'
    '<Relationship Id="rId9" Target="/xl/worksheets/sheet2.xml"/></Relationships>',
    "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}"><si><t>Video_ID</t></si>'
    "<si><r><t>11.</t></r><r><t>74mm</t></r><rPh><t>no</t></rPh></si></sst>",
    "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"/>',
    "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{MAIN}"><sheetData>'
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="AB1" t="s"><v>1</v></c></row>'
    '<row r="3"><c r="B3"><v>5.5</v></c><c r="C3" t="inlineStr"><is><t>x</t></is></c>'
    '<c r="D3" t="str"><v>y</v></c><c r="E3" t="s"><v>99</v></c></row>'
    "</sheetData></worksheet>",
}


def packed(folder: Path, **changes: str | None) -> bytes:
    with zipfile.ZipFile(folder / "x.xlsx", "w") as archive:
        for name, text in PARTS.items():
            new = changes.get(Path(name).stem, text)
            if new is not None:
                archive.writestr(name, new)
    return (folder / "x.xlsx").read_bytes()


def test_a_file_of_a_spreadsheet_program(tmp_path: Path) -> None:
    rows = read_xlsx(packed(tmp_path), "x.xlsx")
    assert rows[0] == ["Video_ID", *[""] * 26, "11.74mm"]
    assert rows[1] == ["", "5.5", "x", "y", ""]


def test_damaged_files(tmp_path: Path) -> None:
    whole = packed(tmp_path)
    for data in (b"", b"PK", whole[: len(whole) // 2], b"a,b\n1,2\n"):
        with pytest.raises(PolyplinkError, match=r"x\.xlsx is no whole \.xlsx file .*as CSV"):
            read_xlsx(data, "x.xlsx")
    for changes in (
        {"workbook": None},
        {"workbook": "<workbook"},
        {"sheet2": None},
        {"sheet2": "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"},
    ):
        with pytest.raises(PolyplinkError, match=r"x\.xlsx is no whole \.xlsx file"):
            read_xlsx(packed(tmp_path, **changes), "x.xlsx")


words = st.text("ab<&>\"' é1.", max_size=4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(words, min_size=1, max_size=30), max_size=4))
def test_read_undoes_write(rows: list[list[str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.xlsx"
        write_xlsx(path, rows)
        read = read_xlsx(path.read_bytes(), "x.xlsx")
    for before, after in zip(rows, read, strict=True):
        assert after + [""] * (len(before) - len(after)) == before
