"""A spreadsheet as spreadsheet programs write it."""

import zipfile
from io import BytesIO

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"

# The form of spreadsheet programs: shared strings, one formatted, numbers, an absolute target.
PARTS = {
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="rId1" '
    f'Target="xl/workbook.xml" Type="{RELATIONS}/officeDocument"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
    '<sheet name="Labels" sheetId="4" r:id="rId9"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="rId9" '
    f'Target="/xl/worksheets/sheet2.xml" Type="{RELATIONS}/worksheet"/></Relationships>',
    "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}"><si><t>Video_ID</t></si><si><r><t>Polyp_</t></r>'
    "<r><t>Size</t></r></si></sst>",
    "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{MAIN}"><sheetData>'
    '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>'
    '<row r="3"><c r="A3"><v>7</v></c><c r="C3" t="inlineStr"><is><t>5.5 mm</t></is></c></row>'
    '<row r="4"><c r="A4" t="str"><v>08</v></c><c r="C4"><v>11.74</v></c></row>'
    "</sheetData></worksheet>",
}


def spreadsheet(**changes: str) -> bytes:
    """`PARTS` as a file, with an added row (`row`) or a changed shared text (`text`)."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in PARTS.items():
            sheet = text.replace("</sheetData>", changes.get("row", "") + "</sheetData>")
            archive.writestr(name, sheet.replace("Video_ID", changes.get("text", "Video_ID")))
    return buffer.getvalue()
