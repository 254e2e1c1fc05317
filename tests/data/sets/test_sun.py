import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.sets.sun import (
    ImageName,
    import_sun,
    number_frames,
    parse_case,
    parse_name,
    write_sun,
)
from tests.data.public_sets import assert_same, small_sun, write_set
from tests.data.sample_sets import data_set, procedure_row

POSITIVE = "sundatabase_positive_part1"
RELEASED = "case_M_20181001100941_0U62372100109341_1_005_001-1_a10_ayy_image0001"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_set("sun", small_sun(), tmp_path / "sun")
    return tmp_path / "sun"


def to_xml_packaging(root: Path) -> None:
    """Turn `caseN/*.jpg` and `annotation_txt` into `imgs/caseN/*.jpg` and `annotation_xml`."""
    folder = root / POSITIVE
    for text in (folder / "annotation_txt").iterdir():
        target = root / "annotation_xml" / text.stem
        target.mkdir(parents=True)
        for line in text.read_text().splitlines():
            name, *boxes = line.split() or [""]
            objects = ""
            for box in boxes:
                sides = zip(("xmin", "ymin", "xmax", "ymax"), box.split(","), strict=False)
                inner = "".join(f"<{tag}>{side}</{tag}>" for tag, side in sides)
                objects += f"<object><name>polyp</name><bndbox>{inner}</bndbox></object>"
            if name:
                path = target / name.replace(".jpg", ".xml")
                path.write_text(f"<annotation><filename>{name}</filename>{objects}</annotation>")
    shutil.rmtree(folder / "annotation_txt")
    folder.rename(root / "imgs")


def test_written_numbers_restart_after_a_gap_and_cases_use_the_words_of_the_site(
    tmp_path: Path,
) -> None:
    boxes = [("case7", f, 1, 2, 3, 4, "case7") for f in (0, 1, 1, 4)]
    polyps = [("case7", "case7", 15.0, "cecum", "SSL", "SSL")]
    write_sun(data_set(boxes, polyps, [procedure_row("case7", 9, patient="p")]), tmp_path)
    with pytest.raises(PolyplinkError, match=r"'case07' is not named as in sun; .*zeros"):
        write_sun(data_set([], [], [procedure_row("case07")]), tmp_path)
    text = (tmp_path / POSITIVE / "annotation_txt" / "case7.txt").read_text()
    lines = [line.partition("_001-1_")[2] for line in text.splitlines()]
    assert lines == [
        "a1_ayy_image0001.jpg 1,2,4,6,0",
        "a1_ayy_image0002.jpg 1,2,4,6,0 1,2,4,6,0",
        "a2_ayy_image0002.jpg 1,2,4,6,0",  # frame 3 has no box; frame 4 is number 2 of segment 2
        "",
    ]
    assert (tmp_path / "cases.csv").read_text().splitlines() == [
        "case,patient,shape,size,location,pathology",
        "7,p,,15mm-,cecum,SSL",
    ]


@pytest.mark.parametrize("packaging", ["text", "xml"])
def test_both_packagings_are_imported_with_images(root: Path, packaging: str) -> None:
    if packaging == "xml":
        to_xml_packaging(root)
    else:  # a name with "negative", which only counts if no folder inside says more
        root = root.rename(root.with_name("SUN with negatives"))
    imported = import_sun(root, cases=root / "cases.csv")
    assert_same(imported.data, small_sun())
    images = imported.data.detections["image"].to_list()
    assert all((root / image).is_file() for image in images)
    (warning,) = imported.lines
    assert warning.endswith("a lower bound, used as the size (cases.csv, recording '2' (15mm-))")


def test_without_a_table_of_cases_facts_are_null(root: Path) -> None:
    imported = import_sun(root)
    for column in ("size_mm", "histology", "histology_class", "location", "morphology"):
        assert imported.data.polyps[column].null_count() == 2
    assert imported.data.procedures["patient"].to_list() == ["case2", "case10", "negative2"]
    assert imported.lines == [
        "2 x recording without size, histology and shape, no table given (first: case2)",
        "2 x procedure without a known patient, treated as a separate patient (first: case2)",
    ]
    (root / "cases.csv").write_text("case,size\n2,5mm\n77,5mm\n")
    lines = import_sun(root, cases=root / "cases.csv").lines
    assert any(line.endswith("no row in cases.csv (case10)") for line in lines)
    assert "1 x row of cases.csv without its recording (77)" in lines


def test_a_case_has_the_size_of_its_first_readable_image_or_needs_one(root: Path) -> None:
    damaged = min((root / POSITIVE / "case2").iterdir())
    content = damaged.read_bytes()
    damaged.write_bytes(b"no image")
    imported = import_sun(root, cases=root / "cases.csv")
    assert_same(imported.data, small_sun())
    assert any("1 x file that is not an image" in line for line in imported.lines)
    damaged.write_bytes(content)
    shutil.rmtree(root / POSITIVE / "case10")
    imported = import_sun(root)
    assert imported.data.procedures["procedure_id"].to_list() == ["case2", "negative2"]
    kind = "1 x case without an image that gives its size, left out (case10)"
    assert kind in imported.lines
    imported_with_size = import_sun(root, size=(60, 50), cases=root / "cases.csv")
    assert_same(imported_with_size.data, small_sun())
    with pytest.raises(PolyplinkError, match=r"case10: .*; give the frames' width and height"):
        import_sun(root, strict=True)
    for path in root.rglob("*.jpg"):
        path.unlink()
    with pytest.raises(PolyplinkError, match="has no image that gives the size of frames; give"):
        import_sun(root)


def test_an_image_named_twice_keeps_its_boxes(root: Path) -> None:
    text = root / POSITIVE / "annotation_txt" / "case10.txt"
    name = text.read_text().split()[0]
    text.write_text(f"{name} 1,2,3,4,0\n{name} 5,6,7,8,0\n")
    imported = import_sun(root)
    assert imported.data.detections.filter(procedure_id="case10").height == 2
    assert "1 x image named in two lines, all boxes kept" in " ".join(imported.lines)
    xml = root / "annotation_xml" / "case10" / f"{name.removesuffix('.jpg')}.xml"
    xml.parent.mkdir(parents=True)
    xml.write_text("<annotation><object><name>1</name><bndbox><xmin>1</xmin><ymin>1</ymin>"
                   "<xmax>3</xmax><ymax>3</ymax></bndbox></object></annotation>")  # fmt: skip
    lines = " ".join(import_sun(root).lines)
    assert "1 x image annotated as text and as XML, left out" in lines
    assert "1 x box of class 1 (no polyp), left out" in lines


def test_files_are_assigned_to_cases_or_counted(root: Path) -> None:
    name = "case_M_1_a9_ayy_image0001"
    for path in (
        f"imgs/{name}.jpg",
        f"annotation_xml/{name}.xml",
        "imgs/case2/0001.jpg",
        f"part1/negative_02/{name}.jpg",
        f"part2/negative2/{name}.jpg",
        f"SUN-SEG/Frame/case2_1/{name}.jpg",  # clips derived from the set
        "part1/readme.txt",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(next((root / POSITIVE / "case2").iterdir()), root / path)
    imported = import_sun(root, cases=root / "cases.csv")
    negative = imported.data.procedures.row(2, named=True)
    assert (negative["procedure_id"], negative["n_frames"]) == ("negative2", 4)
    assert imported.data.splits == small_sun().splits
    assert imported.lines[:3] == [
        f"2 x file outside of a case folder, left out (first: annotation_xml/{name}.xml)",
        "1 x file without a segment and a number in its name, left out (imgs/case2/0001.jpg)",
        f"1 x second file of a frame, left out (part2/negative2/{name}.jpg)",
    ]


def test_image_names_are_parsed() -> None:
    assert parse_name(RELEASED) == ImageName(10, RELEASED[:-4], 1)
    assert parse_name(RELEASED.upper()) == ImageName(10, RELEASED[:-4].upper(), 1)
    assert parse_name("a_a2_image_12") == ImageName(2, "a_a2_image_", 12)
    for stem in ("image0001", "a_a2_ayy", "x_a1_image", "_a1_image0001b", "12", ""):
        assert parse_name(stem) is None


@given(st.sets(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.integers(0, 9))))
def test_frames_follow_numbers_within_a_segment_and_have_gaps_between_segments(
    keys: set[tuple[int, str, int]],
) -> None:
    """Segment 10 comes after segment 2; numbers restart in each segment, at 0 or 1."""
    first, later = ImageName(2, "a", 0), ImageName(10, "b", 5)
    assert number_frames([later, first]) == {first: 0, later: 6}
    frames = number_frames(ImageName(*key) for key in keys)
    assert list(frames) == sorted(frames)
    for before, after in pairwise(frames):
        step = frames[after] - frames[before]
        if before[:2] == after[:2]:
            assert step == after.number - before.number
        else:
            assert step > 1  # a tracklet ends here


def test_lines_of_a_case_are_parsed() -> None:
    faults = Faults()
    text = (
        "a b.jpg 1,2,3,4,0\r\nfolder/c.JPG 1,2,3,4,0 5,6.5,7,8,0\r\n\r\nd.jpg\ne 1,2,3,4,0\n\n"
        "f.jpg 1,2,3,4,1\ng.jpg 1,2,3,4,0 1,2,3,4,1\n"
    )
    assert parse_case(text.encode("utf-8-sig"), "case1.txt", faults) == [
        ("a b", [(1, 2, 3, 4)]),
        ("c", [(1, 2, 3, 4), (5, 6.5, 7, 8)]),
        ("d", []),
        ("e", [(1, 2, 3, 4)]),
        ("f", []),
        ("g", [(1, 2, 3, 4)]),
    ]
    kind = "2 x box of class 1 (no polyp), left out (first: case1.txt, line 7)"
    assert [*map(str, faults.messages)] == [kind]
