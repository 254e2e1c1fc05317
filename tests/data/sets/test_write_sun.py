from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.write_sun import write_cases, write_sun
from tests.data.made_sets import data_set, procedure_row, small_set


def test_lines_restart_after_a_gap_and_cases_have_the_sites_words(tmp_path: Path) -> None:
    boxes = [("case7", f, 1, 2, 3, 4, "case7") for f in (0, 1, 1, 4)]
    polyps = [("case7", "case7", 15.0, "cecum", "SSL", "SSL")]
    write_sun(data_set(boxes, polyps, [procedure_row("case7", 9, patient="p")]), tmp_path)
    text = (tmp_path / "sundatabase_positive_part1" / "annotation_txt" / "case7.txt").read_text()
    lines = [line.partition("_001-1_")[2] for line in text.splitlines()]
    assert lines == [
        "a1_ayy_image0001.jpg 1,2,4,6,0",
        "a1_ayy_image0002.jpg 1,2,4,6,0 1,2,4,6,0",
        "a2_ayy_image0002.jpg 1,2,4,6,0",  # frame 3 is left out and frame 4 is number 2 after it
        "",
    ]
    assert (tmp_path / "cases.csv").read_text().splitlines() == [
        "case,patient,shape,size,location,pathology",
        "7,p,,15mm-,cecum,SSL",
    ]


def test_a_procedure_of_another_set(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="'001-001' is no case of SUN; name it case<number>"):
        write_sun(small_set(), tmp_path)
    write_cases(small_set(), tmp_path / "cases.csv")
    assert (tmp_path / "cases.csv").read_text().count("\n") == 4
