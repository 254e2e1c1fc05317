"""The texts of the first sheet of an .xlsx file (Office Open XML, ECMA-376), read and written.

A label table of some dozens of rows: no formulas, dates or styles, so no library for them.
"""

import re
import zipfile
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import _DAMAGE as DAMAGE
from polyplink.data.files.archives import _LOCKED as LOCKED

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_LARGEST = 1 << 26  # bytes of one part: a table of labels is far below

_COLUMN = re.compile(r"([A-Z]{1,3})\d+")


def read_xlsx(data: bytes, name: str) -> list[list[str]]:
    """Read the first sheet.

    Args:
        data: The file's bytes.
        name: The file's name, for messages.

    Returns:
        Its rows; every cell as the text that is stored ("" where there is none), a number without
        its format.

    Raises:
        PolyplinkError: If it is no such file, or damaged.
    """
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            shared = _shared(archive)
            sheet = _part(archive, _first_sheet(archive))
    except (LookupError, ET.ParseError, *DAMAGE, LOCKED) as error:
        raise PolyplinkError(
            f"{name} is no whole .xlsx file ({error})", "download it again, or save it as CSV"
        ) from None
    return [_row(row, shared) for row in sheet.iter(f"{_MAIN}row")]


def _part(archive: zipfile.ZipFile, path: str) -> ET.Element:
    if archive.getinfo(path).file_size > _LARGEST:
        raise KeyError(f"{path} is too large")
    text = archive.read(path)
    if b"<!DOCTYPE" in text:
        raise KeyError(f"{path} has a document type")
    return ET.fromstring(text)  # noqa: S314 - without a document type no entity is expanded


def _first_sheet(archive: zipfile.ZipFile) -> str:
    sheet = _part(archive, "xl/workbook.xml").find(f"{_MAIN}sheets/{_MAIN}sheet")
    wanted = None if sheet is None else sheet.get(_ID)
    for relation in _part(archive, "xl/_rels/workbook.xml.rels"):
        if relation.get("Id") == wanted:
            target = relation.get("Target", "")
            return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    raise KeyError("no sheet")


def _shared(archive: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    return [_text(item) for item in _part(archive, "xl/sharedStrings.xml").iter(f"{_MAIN}si")]


def _text(item: ET.Element) -> str:
    """The plain text of a string whose parts may bear formats; phonetic hints are not of it."""
    plain = item.findall(f"{_MAIN}t") + item.findall(f"{_MAIN}r/{_MAIN}t")
    return "".join(part.text or "" for part in plain)


def _row(row: ET.Element, shared: Sequence[str]) -> list[str]:
    cells: list[str] = []
    for cell in row.iter(f"{_MAIN}c"):
        place = _COLUMN.fullmatch(cell.get("r", ""))
        column = _index(place[1]) if place else len(cells)
        cells += [""] * (column + 1 - len(cells))
        cells[column] = _cell(cell, shared)
    return cells


def _index(letters: str) -> int:
    """A -> 0, Z -> 25, AA -> 26."""
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - ord("A") + 1
    return index - 1


def _cell(cell: ET.Element, shared: Sequence[str]) -> str:
    kind, value = cell.get("t"), cell.findtext(f"{_MAIN}v") or ""
    if kind == "inlineStr":
        inline = cell.find(f"{_MAIN}is")
        return "" if inline is None else _text(inline)
    if kind == "s":
        place = int(value) if value.isdecimal() else len(shared)
        return shared[place] if place < len(shared) else ""
    return value


_TYPES = """<?xml version="1.0" encoding="UTF-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">\
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>\
<Default Extension="xml" ContentType="application/xml"/>\
<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.\
spreadsheetml.sheet.main+xml"/>\
<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-\
officedocument.spreadsheetml.worksheet+xml"/></Types>"""
_RELATIONS = """<?xml version="1.0" encoding="UTF-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">\
<Relationship Id="rId1" Target="{target}" Type="http://schemas.openxmlformats.org/officeDocument/\
2006/relationships/{kind}"/></Relationships>"""
_WORKBOOK = f"""<?xml version="1.0" encoding="UTF-8"?>
<workbook xmlns="{_MAIN[1:-1]}" xmlns:r="{_ID[1:-3]}">\
<sheets><sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>"""


def write_xlsx(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write one sheet of texts; an empty text leaves its cell out."""
    lines = []
    for number, row in enumerate(rows, 1):
        cells = "".join(
            f'<c r="{_letters(i)}{number}" t="inlineStr"><is><t xml:space="preserve">'
            f"{escape(text)}</t></is></c>"
            for i, text in enumerate(row)
            if text
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    sheet = f'<worksheet xmlns="{_MAIN[1:-1]}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _RELATIONS.format(target="xl/workbook.xml", kind="officeDocument"),
        "xl/workbook.xml": _WORKBOOK,
        "xl/_rels/workbook.xml.rels": _RELATIONS.format(
            target="worksheets/sheet1.xml", kind="worksheet"
        ),
        "xl/worksheets/sheet1.xml": f'<?xml version="1.0" encoding="UTF-8"?>\n{sheet}',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)


def _letters(index: int) -> str:
    """0 -> A, 25 -> Z, 26 -> AA."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
