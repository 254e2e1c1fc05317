from pathlib import Path

import pytest

from polyplink.data.faults import Faults
from polyplink.data.files.trees import open_tree
from polyplink.data.sets.recognise import nothing_found, recognise


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("lesion_info.csv", ["real-colon"]),
        ("001-001_annotations/001-001_0.xml", ["real-colon"]),
        ("x/LDPolypVideo/Test/Images/101/0001.jpg", ["ldpolyp"]),
        ("PolypsSet/val2019/Image/1/1.jpg", ["polypsset"]),
        ("annotation_txt/case1.txt", ["sun"]),
        ("SUN-Positive/case7/x.jpg", ["sun"]),
        ("annotations/instances_train.json", ["coco"]),
        ("a/gt/gt.txt", ["mot"]),
        ("Video01.mp4", ["polyp-size"]),
        ("holiday.jpg", []),
    ],
)
def test_one_file_is_enough(tmp_path: Path, name: str, formats: list[str]) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    tree = open_tree(tmp_path, Faults())
    assert recognise(tree) == formats
    other = formats[0] if formats else "check the path"
    assert other in str(nothing_found(tree, "here", "files of mine", "mine"))
    if formats:
        assert "check the path" in str(nothing_found(tree, "here", "files", formats[0]))
