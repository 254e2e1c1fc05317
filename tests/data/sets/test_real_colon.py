"""REAL-Colon: writing, reading with the quirks of the release, and its two tables."""

import shutil
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.protocols import lesion_info, positive_frames, video_info
from polyplink.data.sets.real_colon import (
    ProcedureSource,
    annotation_texts,
    annotations_folder,
    format_annotations,
    format_voc,
    frame_stem,
    import_real_colon,
    read_boxes,
    read_tables,
    write_real_colon,
    write_tables,
)
from polyplink.data.sets.voc import VocFrame, VocObject, parse_voc
from polyplink.data.tables import DataSet
from tests.data.packing import files_of, pack
from tests.data.public_sets import assert_same
from tests.data.sample_sets import data_set, data_sets, procedure_row, small_set

W, H = 64, 48
Edges = tuple[float, float, float, float]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_real_colon(small_set(), tmp_path)
    return tmp_path


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


@settings(max_examples=3)
@given(data_sets())
def test_import_undoes_write(data: DataSet) -> None:
    with TemporaryDirectory() as folder:
        write_real_colon(data, Path(folder))
        assert_same(import_real_colon(Path(folder)).data, data)


def test_quirks_of_the_release_are_read(root: Path) -> None:
    """A folder without `s`, `.0` in names, misspelt sites, a wrong lesion count."""
    before = import_real_colon(root).data
    (root / "001-001_annotations").rename(root / "001-001_annotation")
    for path in (root / "001-009_annotations").iterdir():
        path.rename(path.with_name(f"{path.stem}.0.xml"))
    rewrite(
        root / "lesion_info.csv",
        lambda text: text.replace("transverse", "trasnverse").replace("cecum", "caecum"),
    )
    rewrite(root / "video_info.csv", lambda text: text.replace(",25,6,2,", ",25,6,1,"))
    (root / "001-010_annotations" / "001-010_1.xml").unlink()
    imported = import_real_colon(root)
    assert imported.data.key == before.key
    assert imported.lines == [
        "1 x num_lesions of video_info.csv is not the number of rows of lesion_info.csv, "
        "which counts (001-001: 1 and 2)",
        "1 x num_frames of video_info.csv is not the number of annotation files (001-010: 3 and 2)",
    ]


def test_images_come_from_a_folder_or_an_archive_and_missing_ones_are_counted(root: Path) -> None:
    (root / "001-001_frames.tar.gz").write_bytes(b"tens of gigabytes")  # not opened
    images = import_real_colon(root).data.detections["image"].to_list()
    start = "001-001_frames.tar.gz!/001-001_"
    assert images == [*(f"{start}{i}.jpg" for i in (0, 1, 1)), None]
    frames = root / "001-001_frames"
    frames.mkdir()
    for i in range(6):
        (frames / f"001-001_{i}.jpg").touch()
    images = import_real_colon(root).data.detections["image"].to_list()
    assert images == [*(f"001-001_frames/001-001_{i}.jpg" for i in (0, 1, 1)), None]
    assert import_real_colon(root, images=False).data.detections["image"].null_count() == 4
    (frames / "001-001_0.jpg").unlink()
    with pytest.raises(PolyplinkError, match=r"001-001_0\.jpg: frame with a box without an image"):
        import_real_colon(root, strict=True)
    counted = import_real_colon(root)
    assert counted.data.detections["frame"].to_list() == [1, 1, 2]
    assert "1 x frame with a box without an image, left out" in counted.lines[0]


def test_only_present_procedures_are_imported(root: Path) -> None:
    shutil.rmtree(root / "001-001_annotations")
    data = import_real_colon(root).data
    assert data.procedures["procedure_id"].to_list() == ["001-009", "001-010"]
    assert data.polyps["polyp_id"].to_list() == ["001-009_1"]
    assert data.splits == {"eval": ["001-009"], "negative": ["001-010"]}


def test_archives_give_the_same_set_as_folders(root: Path) -> None:
    before = import_real_colon(root)
    for procedure_id, prefix in (("001-001", ""), ("001-009", "./001-009_annotations/")):
        folder = root / f"{procedure_id}_annotations"
        texts = {prefix + name: data for name, data in reversed(files_of(folder).items())}
        pack(root / f"{folder.name}.tar.gz", texts)
        shutil.rmtree(folder)
    for workers in (1, 2):
        again = import_real_colon(root, workers=workers)
        assert again.data.key == before.data.key
        assert again.lines == []
    packed = root / "001-001_annotations.tar.gz"
    content = packed.read_bytes()
    packed.write_bytes(content[:-20])
    with pytest.raises(PolyplinkError, match=r"001-001_annotations\.tar\.gz is cut short"):
        import_real_colon(root)
    packed.write_bytes(content)
    (root / "001-009_annotations").mkdir()  # the folder has priority over its archive
    (root / "001-009_annotations" / "001-009_0.xml").write_text("half unpacked")
    with pytest.raises(PolyplinkError, match="has no annotation that can be read"):
        import_real_colon(root)


def test_invalid_folders_and_tables_are_refused(root: Path) -> None:
    extra = root / "009-001_annotations"
    extra.mkdir()
    message = r"video_info\.csv has no row for 009-001; add the row"
    with pytest.raises(PolyplinkError, match=message):
        import_real_colon(root)
    extra.rmdir()
    (root / "001-001_annotation").mkdir()
    with pytest.raises(PolyplinkError, match="are of the same procedure; remove one of them"):
        import_real_colon(root)
    (root / "001-001_annotation").rmdir()
    for path in (root / "001-010_annotations").iterdir():
        path.unlink()
    with pytest.raises(PolyplinkError, match=r"001-010_annotations has no annotations \(\*\.xml\)"):
        import_real_colon(root)
    (root / "lesion_info.csv").unlink()
    with pytest.raises(PolyplinkError, match=r"lesion_info\.csv is missing"):
        import_real_colon(root)


def source_of(folder: Path, *frames: list[Edges], polyp: str | None = "p_1") -> ProcedureSource:
    """Write one XML file per list of boxes (left, top, right, bottom)."""
    annotations = folder / "p_annotations"
    annotations.mkdir()
    for i, boxes in enumerate(frames):
        named = [(polyp, edges) for edges in boxes]
        text = format_voc("p_frames", f"p_{i}.jpg", (W, H), named)
        (annotations / f"p_{i}.xml").write_text(text)
    return ProcedureSource("p", annotations, None, frozenset({"p_1"}))


def test_boxes_are_in_the_order_of_frames(tmp_path: Path) -> None:
    frames: list[list[Edges]] = [[] for _ in range(12)]
    frames[10], frames[9] = [(1, 2, 11, 22)], [(-3, 40.6, 20.4, 90)]
    size, n_files, read, faults = read_boxes(source_of(tmp_path, *frames), strict=True)
    beyond = "1 x box that reaches beyond the image, clipped to it (p_9.xml)"
    assert (size, n_files, [*map(str, faults.messages)]) == ((W, H), 12, [beyond])
    assert read.select("frame", "x", "y", "w", "h", "polyp_id", "image").rows() == [
        (9, 0, 41, 20, 6, "p_1", None),
        (10, 1, 2, 10, 20, "p_1", None),
    ]


def test_unknown_missing_and_duplicate_polyps_are_reported(tmp_path: Path) -> None:
    box, other = (1, 1, 9, 9), (20, 20, 30, 30)
    source = source_of(tmp_path, [box], [box, other], [box, other, other])
    *_, boxes, faults = read_boxes(source, strict=True)
    assert boxes["frame"].to_list() == [0, 1, 1, 2, 2, 2]
    assert [*map(str, faults.messages)] == [
        "3 x further box of a polyp in one frame, both kept (first: p_1.xml)"
    ]
    unknown = ProcedureSource("p", source.annotations, None, frozenset({"p_2"}))
    with pytest.raises(PolyplinkError, match=r"p_0\.xml, p_1: box of a polyp that lesion_info"):
        read_boxes(unknown, strict=True)
    assert read_boxes(unknown, strict=False)[2].is_empty()
    (tmp_path / "unnamed").mkdir()
    *_, boxes, faults = read_boxes(source_of(tmp_path / "unnamed", [box], polyp=None), strict=True)
    assert boxes["polyp_id"].to_list() == [None]
    assert [*map(str, faults.messages)] == ["1 x box without unique_id (p_0.xml)"]


def test_broken_files_and_frames_of_another_size_are_counted(tmp_path: Path) -> None:
    source = source_of(tmp_path, [(1, 1, 9, 9)], [(1, 1, 9, 9)], [])
    wide = format_voc("p_frames", "p_2.jpg", (100, H), [("p_1", (1, 1, 90, 9))])
    (source.annotations / "p_2.xml").write_text(wide)
    rewrite(source.annotations / "p_1.xml", lambda text: text[:200])
    with pytest.raises(PolyplinkError, match=r"p_1\.xml is not valid XML .*; download or unpack"):
        read_boxes(source, strict=True)
    (source.annotations / "p_3.xml").write_bytes(b"\xff\xfe<")
    (source.annotations / "p_4.xml").write_text("<annotation></annotation>")  # without a size
    *_, boxes, faults = read_boxes(source, strict=False)
    assert boxes["w"].to_list() == [8, 89]  # clipped to the size of the frame
    unread, other_size = map(str, faults.messages)
    assert "3 x annotation file that cannot be read, left out" in unread
    assert "1 x frame of another size" in other_size


TEXTS = {"p_10.xml": b"ten", "p_2.xml": b"two", "p_3.0.xml": b"three"}
ENDS = {"": "", ".tar.gz": "p_annotations/", ".tar": "./a/b/", ".zip": "./p_annotations/"}


@pytest.mark.parametrize(("end", "prefix"), ENDS.items())
def test_annotation_texts_have_number_name_and_text(tmp_path: Path, end: str, prefix: str) -> None:
    others = {"._p_2.xml": b"left by a Mac", "p_2.jpg": b"an image", "read.me": b""}
    texts = {prefix + name: data for name, data in (TEXTS | others).items()}
    source = pack(tmp_path / f"p_annotations{end}", texts)
    expected = [(2, "p_2.xml", "two"), (3, "p_3.0.xml", "three"), (10, "p_10.xml", "ten")]
    assert sorted(annotation_texts(source)) == expected


@pytest.mark.parametrize("end", ENDS)
def test_file_names_without_a_unique_frame_number_are_refused(tmp_path: Path, end: str) -> None:
    with pytest.raises(PolyplinkError, match=r"two files for frame 3"):
        list(annotation_texts(pack(tmp_path / f"a{end}", {"p_3.xml": b"", "p_3.0.xml": b""})))
    with pytest.raises(PolyplinkError, match=r"x\.xml has no frame number"):
        list(annotation_texts(pack(tmp_path / f"b{end}", {"x.xml": b""})))


def test_files_of_any_length_are_read(tmp_path: Path) -> None:
    lengths = [0, 65535, 65536, 65537, 200000]
    source = pack(tmp_path / "p", {f"p_{k}.xml": b"x" * n for k, n in enumerate(lengths)})
    assert [len(text) for *_, text in sorted(annotation_texts(source))] == lengths


def test_folders_with_names_of_files_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "p"
    (source / "p_1.xml").mkdir(parents=True)
    with pytest.raises(
        PolyplinkError,
        match=r"p_1\.xml: Is a directory; restore the file, or check its permissions",
    ):
        list(annotation_texts(source))


def test_invalid_tables_are_refused(root: Path) -> None:
    lesions = (root / "lesion_info.csv").read_text()
    for name, text, message in (
        ("lesion_info.csv", lesions.replace("size [mm]", "mm"), r"has no column 'size \[mm\]'"),
        ("lesion_info.csv", lesions.replace(",6,", ",six,"), "column size .* 'six'"),
        ("video_info.csv", "", r"video_info\.csv is not a table"),
    ):
        (root / name).write_text(text)
        with pytest.raises(PolyplinkError, match=message):
            read_tables(root)


# Written files.

Boxes = list[tuple[str | None, tuple[float, float, float, float]]]

BOX: Boxes = [("001-001_2", (3.0, 5.0, 30.0, 50.5))]

_words = st.text("ab<&>\"'_- é", min_size=1, max_size=8).filter(lambda s: s == s.strip())
_edge = st.floats(-1e4, 1e4) | st.integers(-5000, 5000).map(float)
_boxes = st.lists(st.tuples(st.none() | _words, st.tuples(_edge, _edge, _edge, _edge)), max_size=3)
_size = st.tuples(st.integers(1, 5000), st.integers(1, 5000))


def text_of(boxes: Boxes, size: tuple[int, int] = (1352, 1080)) -> str:
    return format_voc("001-001_frames", "001-001_0.jpg", size, boxes)


def test_fields_have_the_order_of_the_release_and_boxes_count_from_one() -> None:
    head = ["annotation", "version_fmt", "folder", "filename", "source", "database", "release"]
    head += ["size", "width", "height", "depth"]
    box = ["object", "name", "unique_id", "box_id", "bndbox", "xmin", "xmax", "ymin", "ymax"]
    data = small_set()
    boxes = data.detections.filter(procedure_id="001-001")
    texts = dict(format_annotations(data.procedures.row(0, named=True), boxes, suffix=".0"))
    assert list(texts) == [f"001-001_{i}.0" for i in range(6)]
    tags = [[e.tag for e in ET.fromstring(text).iter()] for text in texts.values()]
    assert tags == [head + box, head + 2 * box, *[head] * 4]
    text = texts["001-001_1.0"]
    assert "<folder>001-001_frames</folder>" in text
    assert "<filename>001-001_1.0.jpg</filename>" in text
    assert [e.text for e in ET.fromstring(text).iter("box_id")] == ["1", "2"]
    assert "<xmin>3</xmin>" in text_of(BOX)
    assert "<ymax>50.5</ymax>" in text_of(BOX)


@given(_size, _boxes)
def test_parse_undoes_format(size: tuple[int, int], boxes: Boxes) -> None:
    objects = tuple(VocObject("lesion", polyp, edges) for polyp, edges in boxes)
    assert parse_voc(text_of(boxes, size), "f.xml") == VocFrame(size, objects)


@pytest.mark.parametrize("boxes", [BOX, []])
@given(share=st.floats(0, 0.99))
def test_truncated_xml_is_refused_by_name(boxes: Boxes, share: float) -> None:
    text = text_of(boxes).rstrip()
    with pytest.raises(PolyplinkError, match=r"f\.xml is not valid XML .*; download or unpack"):
        parse_voc(text[: int(share * len(text))], "f.xml")


TEXT = text_of([("001-001_1", (1, 2, 30, 40.5)), (None, (3, 2, 4, 4))], (1350, 1080))
_PIECES = [" ", "\n", "&amp;", "<", "<a>b</a>", "<size>", "</object>", "unique_id", "7"]
_PIECES += ["\x0b", "é", ""]


@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, 9), st.sampled_from(_PIECES))))
def test_the_fast_parser_equals_the_full_parser(changes: list[tuple[int, int, str]]) -> None:
    text = TEXT
    for at, length, piece in changes[:3]:
        text = text[:at] + piece + text[at + length :]
    read: list[VocFrame | None] = []
    for written in (text, f"<?xml version='1.0'?>{text}"):  # a declaration selects the full parser
        try:
            read.append(parse_voc(written, "f.xml"))
        except PolyplinkError:
            read.append(None)
    assert read[0] == read[1]


def test_written_tables_equal_the_released_tables(tmp_path: Path) -> None:
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
    with as_file(files("polyplink.data") / "released" / "real_colon") as folder:
        released = [(folder / name).read_text() for name in ("lesion_info.csv", "video_info.csv")]
    assert (tmp_path / "lesion_info.csv").read_text() == released[0]
    # The only error of the release: video_info.csv gives 003-012 two lesions instead of three.
    corrected = released[1].replace(",25,96731,2,9\n", ",25,96731,3,9\n")
    assert (tmp_path / "video_info.csv").read_text() == corrected


def test_folders_are_complete_or_absent_and_kept_only_on_request(tmp_path: Path) -> None:
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
    existing = tmp_path / "a" / "001-001_annotations" / "001-001_0.xml"
    existing.write_text("mine")
    (tmp_path / "a" / "001-009_annotations" / "001-009_0.xml").unlink()
    write_real_colon(data, tmp_path / "a", keep=True)
    assert existing.read_text() == "mine"
    assert len(files_of(tmp_path / "a")) == len(before) - 1
    beyond_end = data_set([("a", 9, 1, 1, 5, 5, None)], [], [procedure_row("a", 6)])
    with pytest.raises(
        PolyplinkError, match="procedure a: a box in frame 9 of 6; correct n_frames"
    ):
        write_real_colon(beyond_end, tmp_path / "b")
    assert not (tmp_path / "b" / "a_annotations").exists()
