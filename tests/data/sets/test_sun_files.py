from pathlib import Path

from polyplink.data.faults import Faults
from polyplink.data.files.trees import open_tree
from polyplink.data.sets.sun_files import find_cases

NAME = "case_M_1_a1_ayy_image0001"


def test_files_of_both_packagings_are_sorted_into_cases(tmp_path: Path) -> None:
    names = [
        f"part1/case2/{NAME}.jpg",
        "part1/annotation_txt/case2.txt",
        f"imgs/case10/{NAME}.JPG",
        f"annotation_xml/case10/{NAME}.xml",
        f"sundatabase_negative_part1/case2/{NAME}.jpg",
        "part1/readme.txt",
        f"SUN-SEG/Frame/case2_1/{NAME}.jpg",  # clips made on top of the set
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    faults = Faults()
    cases = find_cases(open_tree(tmp_path, faults), "SUN", faults)
    assert [(c.name, len(c.images), len(c.texts), len(c.xmls)) for c in cases] == [
        ("case2", 1, 1, 0),
        ("case10", 1, 0, 1),
        ("negative2", 1, 0, 0),
    ]
    assert faults.lines() == []


def test_files_without_identity_or_number_are_counted(tmp_path: Path) -> None:
    names = [
        f"imgs/{NAME}.jpg",
        f"annotation_xml/{NAME}.xml",
        "case1/0001.jpg",
        f"part1/case1/{NAME}.jpg",
        f"part2/case1/{NAME}.jpg",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    faults = Faults()
    (case,) = find_cases(open_tree(tmp_path, faults), "SUN-Negative", faults)
    assert case.name == "negative1"
    assert faults.lines() == [
        f"2 x file outside of a case folder, left out (first: annotation_xml/{NAME}.xml)",
        "1 x file whose name has no segment and number, left out (first: case1/0001.jpg)",
        f"1 x second file of an image, left out (first: part2/case1/{NAME}.jpg)",
    ]
