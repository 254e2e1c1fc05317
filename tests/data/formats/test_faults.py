"""Unusable boxes in every box format: counted and named, or raised if strict.

Rules that hold for every format are tested in tests/data/test_boxes.py; here are the faults of each
format, and the names of file and location.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import LANGUAGES, Message
from tests.data.formats import coco_files, cvat_files
from tests.data.formats.text_files import write_labels, write_sequence
from tests.data.sample_sets import BOX_IMPORTERS

SIDE = "box with a coordinate or side that is not a number"
FRAME = "box without a frame number from 0"
UNKNOWN = "box of a category that is not listed"
TEXT = "line with text instead of a number"
NO_BOX = "line that is not a box (class, 4 numbers, score, track)"
NO_SCORE = '<attribute name="score">high</attribute>'
OUTLINE = '<polygon frame="1" outside="0" points="1,2;3,4"></polygon>'
TERMS = {"iscrowd", "confidence", "annotation", "text"}  # of a format, or the same in German
# Unusable boxes of each format, and what they are called. The place of each is `place`.
UNUSABLE: Mapping[str, list[tuple[Any, str]]] = {
    "coco": [
        ({"image_id": 99}, "box of an image that is not listed"),
        ({"category_id": 2}, UNKNOWN),
        ({"category_id": None}, UNKNOWN),
        ({"bbox": [1, 2, "wide", 4]}, SIDE),
        ({"bbox": {"x": 1}}, SIDE),
        ({"bbox": [1, 2]}, SIDE),
        ({"bbox": None}, SIDE),
        ({"iscrowd": 1}, "box of a crowd (iscrowd), not of one polyp"),
    ],
    "mot": [
        ("2,1,one,2,3,4,1", SIDE),
        ("2,1", SIDE),
        ("0,1,1,2,3,4,1", FRAME),
        ("x,1,1,2,3,4,1", FRAME),
        ("2,left,1,2,3,4,1", f"{TEXT} (id)"),
        ("2,1,1,2,3,4,high", f"{TEXT} (confidence)"),
    ],
    "yolo": [
        ("0 0.5 wide 0.5 0.5", SIDE),
        ("polyp 0.5 0.5 0.5 0.5", TEXT),
        ("0 0.5 0.5 0.5 0.5 high", TEXT),
        ("0 0.5 0.5 0.5", NO_BOX),
        ("0 0 0 1 0 1 1 0", NO_BOX),
    ],
    "cvat": [
        (cvat_files.box(1, edges='xtl="left" ytl="2" xbr="3" ybr="4"'), SIDE),
        (cvat_files.box("1.5"), FRAME),
        (cvat_files.box(1, inner=NO_SCORE), "box with a score that is not a number"),
        (OUTLINE, "shape of a track that is not a box"),
    ],
    "csv": [
        ("v,0,one,2,3,4,", SIDE),
        ("v,1.5,1,2,3,4,", FRAME),
        ("v,,1,2,3,4,", FRAME),
        (",0,1,2,3,4,", "box without a procedure"),
        ("v,0,1,2,3,4,high", "box with a score that is not a number"),
    ],
}


def words(text: str) -> set[str]:
    """The words of a warning, without names of files."""
    return set(re.findall(r"(?<![\w./])[a-z]{3,}(?![\w./])", text.lower()))


def place(name: str, k: int) -> str:
    """How messages name the place of unusable box `k` in the source of `write_with_faults`."""
    places = {
        "coco": f"a.json, annotation {5 + k}",
        "mot": f"s/gt.txt, line {2 + k}",
        "yolo": f"v_0.txt, line {2 + k}",
        "cvat": f"annotations.xml, track {3 + k}, frame",
        "csv": f"detections.csv, line {3 + k}",
    }
    return places[name]


def write_with_faults(folder: Path, name: str, unusable: list[Any], valid: int = 1) -> Path:
    """Write a valid box, or none, and unusable ones."""
    lines = "".join(f"{row}\n" for row in unusable)
    if name == "coco":
        boxes = [coco_files.box(5 + k, 1) | row for k, row in enumerate(unusable)]
        image = coco_files.image(1, "v_0.jpg")
        return coco_files.write(folder / "a.json", [image], [coco_files.box(1, 1)] * valid + boxes)
    if name == "mot":
        return write_sequence(folder, "1,1,1,2,3,4,1,1,1\n" * valid + lines)
    if name == "yolo":
        return write_labels(folder, v_0="0 0.5 0.5 0.5 0.5\n" * valid + lines)
    if name == "cvat":
        tracks = [cvat_files.track(row, number=3 + k) for k, row in enumerate(unusable)]
        usable = [cvat_files.track(cvat_files.box(0), number=2)] * valid
        return cvat_files.write(folder, *usable, *tracks)
    box = "v,0,1,2,3,4,0.5\n" * valid
    (folder / "detections.csv").write_text(f"procedure_id,frame,x,y,w,h,score\n{box}{lines}")
    return folder


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for name, rows in UNUSABLE.items() for row, _ in rows]
)
def test_a_source_of_which_no_box_is_usable_is_refused(tmp_path: Path, name: str, row: Any) -> None:
    """It would be counted as a procedure without a polyp."""
    source = write_with_faults(tmp_path, name, [row], valid=0)
    for folder in (tmp_path, source):
        if folder.is_dir():
            (folder / "procedures.csv").write_text("procedure_id,n_frames\nv,9\ns,9\n")
    message = r"no usable box among 1: 1 x|no line of .* is a box|no lines of 6|most frames are not"
    with pytest.raises(PolyplinkError, match=message):
        BOX_IMPORTERS[name](source, size=(64, 48))


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_boxes_are_counted_or_raised(tmp_path: Path, name: str) -> None:
    source = write_with_faults(tmp_path, name, [row for row, _ in UNUSABLE[name]])
    imported = BOX_IMPORTERS[name](source, size=(64, 48))
    assert imported.data.detections.height == 1
    kinds = [kind for _, kind in UNUSABLE[name]]
    for kind in set(kinds):
        n, first = kinds.count(kind), place(name, kinds.index(kind))
        line = f"{n} x {kind}, left out ({'first: ' if n > 1 else ''}{first}"
        (warning,) = (warning for warning in imported.warnings if str(warning).startswith(line))
        assert isinstance(warning, Message)
        english = words(str(warning))
        for language in LANGUAGES[1:]:
            assert english & words(warning.text(language)) <= TERMS
    with pytest.raises(PolyplinkError) as error:
        BOX_IMPORTERS[name](source, size=(64, 48), strict=True)
    raised = (f"{place(name, k)}.*: {re.escape(kind)}; " for k, kind in enumerate(kinds))
    assert any(re.search(line, str(error.value)) for line in raised)


@pytest.mark.parametrize("name", BOX_IMPORTERS)
def test_a_missing_path_and_a_folder_without_boxes_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, message in (("nowhere", "nowhere.*; check the path"), ("empty", "empty has no ")):
        with pytest.raises(PolyplinkError, match=message):
            BOX_IMPORTERS[name](tmp_path / source)


def test_every_written_format_has_unusable_boxes() -> None:
    assert {*UNUSABLE} == {*BOX_IMPORTERS}
