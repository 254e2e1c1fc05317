from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.xlsx import write_xlsx
from polyplink.data.sets.polyp_size_labels import (
    VideoLabel,
    is_label_table,
    parse_labels,
    read_rows,
)

HEADER = "Video_ID,Polyp_Size,Paris_Classification,Age,Gender,Endoscope_Model,Pathological type"
ROWS = "01,11.74mm,Is,61,Male,CF-HQ290I,Tubular adenoma\r\nVideo02, 2.8 mm ,,,,,\r\n\r\n"


def labels(text: str, strict: bool = False) -> tuple[dict[int, VideoLabel], list[str]]:
    faults = Faults(strict)
    rows = read_rows(text.encode("utf-8-sig"), "labels.csv")
    return parse_labels(rows, "labels.csv", faults), faults.lines()


def test_table_as_csv_and_as_xlsx(tmp_path: Path) -> None:
    read, warnings = labels(f"{HEADER}\r\n{ROWS}")
    assert warnings == []
    first = VideoLabel(11.74, "Is", 61, "Male", "CF-HQ290I", "Tubular adenoma", "Tubular Adenoma")
    assert read == {1: first, 2: VideoLabel(2.8)}
    write_xlsx(tmp_path / "x.xlsx", read_rows(f"{HEADER}\n{ROWS}".encode(), "a.csv"))
    rows = read_rows((tmp_path / "x.xlsx").read_bytes(), "X.XLSX")
    assert parse_labels(rows, "x.xlsx", Faults()) == read
    assert labels(f"{HEADER}\n{ROWS}".replace(",", ";"))[0] == read


def test_headers_are_found_by_their_words() -> None:
    text = "video id;polyp size (mm);HISTOLOGY;sex\n3.0;4;Hyperplastic Polyp;F\n"
    read, warnings = labels(text)
    word = "Hyperplastic Polyp"
    assert read == {3: VideoLabel(4, sex="F", pathology=word, histology_class=word)}
    assert warnings == [
        "3 x column of the label table that is missing, its values null (first: shape)"
    ]
    assert is_label_table(read_rows(text.encode(), "a.csv"))
    assert not is_label_table([["imgdir"], ["01_0.27_.png"]])
    assert not is_label_table([])
    with pytest.raises(PolyplinkError, match=r"labels\.csv has no column Video_ID; take the table"):
        labels("imgdir\n01_0.27_.png\n")


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("video,4,Is,60,F,X,Hyperplastic Polyp", "row of no video"),
        ("1,4,Is,60,F,X,Hyperplastic Polyp", "second row of a video"),
        ("3,small,Is,60,F,X,Hyperplastic Polyp", "size that is no number"),
        ("3,4,Is,old,F,X,Hyperplastic Polyp", "age that is no number"),
    ],
)
def test_values_that_cannot_be_read_are_counted(row: str, kind: str) -> None:
    text = f"{HEADER}\n{ROWS}{row}\n"
    read, warnings = labels(text)
    assert 1 in read
    assert [line.split(", left out")[0] for line in warnings] == [f"1 x {kind}"]
    with pytest.raises(PolyplinkError, match=kind):
        labels(text, strict=True)


def test_an_unknown_pathology_keeps_its_word() -> None:
    read, warnings = labels(f"{HEADER}\n1,,,,,,Odd\n")
    assert read[1] == VideoLabel(pathology="Odd")
    assert warnings == [
        "1 x pathology of no known class, histology class null (first: labels.csv, video 1 (Odd))"
    ]
