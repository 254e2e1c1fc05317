from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import (
    DataSet,
    annotations_folder,
    format_annotations,
    frame_stem,
    frames_folder,
    lesion_info,
    positive_frames,
    video_info,
    write_real_colon,
    write_tables,
)
from polyplink.data.sets.layout import VocFrame, VocObject, parse_voc
from polyplink.data.sets.real_colon_layout import format_voc
from tests.data.made_sets import data_set, procedure_row, small_set
from tests.data.packed import files_of

Boxes = list[tuple[str | None, tuple[float, float, float, float]]]

BOX: Boxes = [("001-001_2", (3.0, 5.0, 30.0, 50.5))]

_words = st.text("ab<&>\"'_- é", min_size=1, max_size=8).filter(lambda s: s == s.strip())
_edge = st.floats(-1e4, 1e4) | st.integers(-5000, 5000).map(float)
_boxes = st.lists(st.tuples(st.none() | _words, st.tuples(_edge, _edge, _edge, _edge)), max_size=3)
_size = st.tuples(st.integers(1, 5000), st.integers(1, 5000))


def text_of(boxes: Boxes, size: tuple[int, int] = (1352, 1080)) -> str:
    return format_voc("001-001_frames", "001-001_0.jpg", size, boxes)


def test_fields_come_in_the_order_of_the_release() -> None:
    head = ["annotation", "version_fmt", "folder", "filename", "source", "database", "release"]
    head += ["size", "width", "height", "depth"]
    box = ["object", "name", "unique_id", "box_id", "bndbox", "xmin", "xmax", "ymin", "ymax"]
    assert [element.tag for element in ET.fromstring(text_of([])).iter()] == head
    text = text_of(BOX)
    assert [element.tag for element in ET.fromstring(text).iter()] == head + box
    assert "<xmin>3</xmin>" in text
    assert "<ymax>50.5</ymax>" in text


@settings(deadline=None)
@given(_size, _boxes)
def test_parse_undoes_format(size: tuple[int, int], boxes: Boxes) -> None:
    objects = tuple(VocObject("lesion", polyp, edges) for polyp, edges in boxes)
    assert parse_voc(text_of(boxes, size), "f.xml") == VocFrame(size, objects)


@pytest.mark.parametrize("boxes", [BOX, []])
@settings(deadline=None)
@given(share=st.floats(0, 0.99))
def test_truncated_xml_is_refused_by_name(boxes: Boxes, share: float) -> None:
    text = text_of(boxes).rstrip()
    with pytest.raises(PolyplinkError, match=r"f\.xml is not whole XML .*; download or unpack"):
        parse_voc(text[: int(share * len(text))], "f.xml")


def _released(name: str) -> str:
    return (files("polyplink.data") / "released" / "real_colon" / name).read_text()


def test_boxes_of_a_frame_are_numbered_from_one() -> None:
    data = small_set()
    procedure = data.procedures.row(0, named=True)
    boxes = data.detections.filter(procedure_id="001-001")
    texts = dict(format_annotations(procedure, boxes, suffix=".0"))
    assert list(texts) == [f"001-001_{i}.0" for i in range(6)]
    text = texts["001-001_1.0"]
    assert f"<folder>{frames_folder('001-001')}</folder>" in text
    assert "<filename>001-001_1.0.jpg</filename>" in text
    assert [e.text for e in ET.fromstring(text).iter("box_id")] == ["1", "2"]
    assert parse_voc(text, "f.xml").objects == (
        VocObject("lesion", "001-001_1", (11, 8, 31, 24)),
        VocObject("lesion", "001-001_2", (40, 30, 50, 40)),
    )


def test_tables_of_the_release_come_out_byte_for_byte(tmp_path: Path) -> None:
    videos, lesions = video_info(), lesion_info()
    sizes = positive_frames().select("width", "height", unique_video_name="video_id")
    data = DataSet.of(
        pl.DataFrame(schema=["procedure_id", "frame", "x", "y", "w", "h"]),
        videos.join(sizes, on="unique_video_name", maintain_order="left").select(
            "age", "sex", "fps", "bbps", "width", "height", procedure_id="unique_video_name",
            brand="endoscope_brand", n_frames="num_frames", patient="unique_video_name",
            dataset=pl.lit("real-colon"), source=pl.lit("/nowhere"),
        ),
        lesions.select(
            polyp_id="unique_object_id", procedure_id="unique_video_name", size_mm="size [mm]",
            location="site", histology="histology_extended", histology_class="histology_class",
        ),
    )  # fmt: skip
    write_tables(data, tmp_path)
    assert (tmp_path / "lesion_info.csv").read_text() == _released("lesion_info.csv")
    # The one number the release has wrong: 003-012 claims two lesions and lists three.
    corrected = _released("video_info.csv").replace(",25,96731,2,9\n", ",25,96731,3,9\n")
    assert (tmp_path / "video_info.csv").read_text() == corrected


def test_null_is_an_empty_field_and_quotes_are_doubled(tmp_path: Path) -> None:
    data = data_set(
        [],
        [("a_1", "a", None, None, 'so-called "polyp"', "OTHER")],
        [procedure_row("a", age=None, fps=None, brand='x"y')],
    )
    write_tables(data, tmp_path)
    assert (tmp_path / "video_info.csv").read_text().splitlines()[1] == (
        '"a",,"male","x""y",,6,1,7.5'
    )
    assert (tmp_path / "lesion_info.csv").read_text().splitlines()[1] == (
        '"a_1","a",,,"so-called ""polyp""","OTHER"'
    )


def test_folders_are_whole_or_absent_and_kept_only_when_asked(tmp_path: Path) -> None:
    data = small_set()
    write_real_colon(data, tmp_path / "a")
    before = files_of(tmp_path / "a")
    expected = {"video_info.csv", "lesion_info.csv"}
    for name, n_frames in data.procedures.select("procedure_id", "n_frames").iter_rows():
        folder = annotations_folder(name)
        expected |= {f"{folder}/{frame_stem(name, i)}.xml" for i in range(n_frames)}
    assert set(before) == expected
    write_real_colon(data, tmp_path / "again")
    assert files_of(tmp_path / "again") == before
    with pytest.raises(PolyplinkError, match="001-001_annotations exists already"):
        write_real_colon(data, tmp_path / "a")
    kept = tmp_path / "a" / "001-001_annotations" / "001-001_0.xml"
    kept.write_text("mine")
    (tmp_path / "a" / "001-009_annotations" / "001-009_0.xml").unlink()
    write_real_colon(data, tmp_path / "a", keep=True)
    assert kept.read_text() == "mine"
    assert len(files_of(tmp_path / "a")) == len(before) - 1
    late = data_set([("a", 9, 1, 1, 5, 5, None)], [], [procedure_row("a", 6)])
    with pytest.raises(
        PolyplinkError, match="procedure a: a box in frame 9 of 6; correct n_frames"
    ):
        write_real_colon(late, tmp_path / "b")
    assert not (tmp_path / "b" / "a_annotations").exists()
