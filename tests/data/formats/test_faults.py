"""Unusable boxes in every box format: counted and named, or raised if strict.

Rules that hold for every format are tested in tests/data/test_boxes.py; here are the faults of each
format, and the names of file and location.
"""

import re
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import LANGUAGES, Message
from tests.data.formats import test_coco, test_cvat, test_mot, test_yolo
from tests.data.sample_sets import BOX_IMPORTERS

SIDE = "box with a side that is not a number"
FRAME = "box without a frame number from 0"
UNKNOWN = "box of a category that is not listed"
TEXT = "line with text instead of a number"
NO_BOX = "line that is not a box (class, 4 numbers, score, track)"
NO_SCORE = '<attribute name="score">high</attribute>'
OUTLINE = '<polygon frame="1" outside="0" points="1,2;3,4"></polygon>'
PLACES = {
    "coco": "a.json, annotation 5",
    "mot": "s/gt.txt, line 2",
    "yolo": "v_0.txt, line 2",
    "cvat": "annotations.xml, track 3, frame",
    "csv": "detections.csv, line 3",
}
TERMS = {"iscrowd", "confidence", "annotation", "text"}  # of a format, or the same in German
ROWS = [
    ("coco", {"image_id": 99}, "box of an image that is not listed"),
    ("coco", {"category_id": 2}, UNKNOWN),
    ("coco", {"category_id": None}, UNKNOWN),
    ("coco", {"bbox": [1, 2, "wide", 4]}, SIDE),
    ("coco", {"bbox": {"x": 1}}, SIDE),
    ("coco", {"bbox": [1, 2]}, SIDE),
    ("coco", {"bbox": None}, SIDE),
    ("coco", {"iscrowd": 1}, "box of a crowd (iscrowd), not of one polyp"),
    ("mot", "2,1,one,2,3,4,1", SIDE),
    ("mot", "2,1", SIDE),
    ("mot", "0,1,1,2,3,4,1", FRAME),
    ("mot", "x,1,1,2,3,4,1", FRAME),
    ("mot", "2,left,1,2,3,4,1", f"{TEXT} (id)"),
    ("mot", "2,1,1,2,3,4,high", f"{TEXT} (confidence)"),
    ("yolo", "0 0.5 wide 0.5 0.5", SIDE),
    ("yolo", "polyp 0.5 0.5 0.5 0.5", TEXT),
    ("yolo", "0 0.5 0.5 0.5 0.5 high", TEXT),
    ("yolo", "0 0.5 0.5 0.5", NO_BOX),
    ("yolo", "0 0 0 1 0 1 1 0", NO_BOX),
    ("cvat", test_cvat.box(1, edges='xtl="left" ytl="2" xbr="3" ybr="4"'), SIDE),
    ("cvat", test_cvat.box("1.5"), FRAME),
    ("cvat", test_cvat.box(1, inner=NO_SCORE), "box with a score that is not a number"),
    ("cvat", OUTLINE, "shape of a track that is not a box"),
    ("csv", "v,0,one,2,3,4,", SIDE),
    ("csv", "v,1.5,1,2,3,4,", FRAME),
    ("csv", "v,,1,2,3,4,", FRAME),
    ("csv", ",0,1,2,3,4,", "box without a procedure"),
    ("csv", "v,0,1,2,3,4,high", "box with a score that is not a number"),
]


def words(text: str) -> set[str]:
    """The words of a warning, without names of files."""
    return set(re.findall(r"(?<![\w./])[a-z]{3,}(?![\w./])", text.lower()))


def write_with_fault(folder: Path, name: str, bad: object) -> Path:
    """Write a valid box and an unusable one."""
    if name == "coco":
        assert isinstance(bad, dict)
        boxes = [test_coco.box(1, 1), test_coco.box(5, 1) | bad]
        return test_coco.write(folder / "a.json", [test_coco.image(1, "v_0.jpg")], boxes)
    if name == "mot":
        return test_mot.write_sequence(folder, f"1,1,1,2,3,4,1,1,1\n{bad}\n")
    if name == "yolo":
        return test_yolo.write_labels(folder, v_0=f"0 0.5 0.5 0.5 0.5\n{bad}\n")
    if name == "cvat":
        return test_cvat.write(folder, test_cvat.track(test_cvat.box(0), str(bad)))
    header = "procedure_id,frame,x,y,w,h,score\n"
    (folder / "detections.csv").write_text(f"{header}v,0,1,2,3,4,0.5\n{bad}\n")
    return folder


@pytest.mark.parametrize(("name", "bad", "kind"), ROWS)
def test_unusable_boxes_are_counted_or_raised(
    tmp_path: Path, name: str, bad: object, kind: str
) -> None:
    source = write_with_fault(tmp_path, name, bad)
    imported = BOX_IMPORTERS[name](source, size=(64, 48))
    assert imported.data.detections.height == 1
    line = f"1 x {kind}, left out ({PLACES[name]}"
    (warning,) = (warning for warning in imported.warnings if str(warning).startswith(line))
    assert isinstance(warning, Message)
    english = words(str(warning))
    for language in LANGUAGES[1:]:
        assert english & words(warning.text(language)) <= TERMS
    with pytest.raises(PolyplinkError, match=f"{re.escape(PLACES[name])}.*: {re.escape(kind)}; "):
        BOX_IMPORTERS[name](source, size=(64, 48), strict=True)
