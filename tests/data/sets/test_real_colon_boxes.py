from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import VocFrame, VocObject, format_voc
from polyplink.data.sets.real_colon_boxes import ProcedureSource, read_boxes, to_xywh

_W, _H = 64, 48
_Edges = tuple[float, float, float, float]

_edge = st.floats(-200, 200)
_box = st.tuples(_edge, _edge, _edge, _edge)
_size = st.tuples(st.integers(1, 100), st.integers(1, 100))


def _source(tmp_path: Path, *frames: list[_Edges], strict: bool = True) -> ProcedureSource:
    """Write one XML for every list of boxes (left, top, right, bottom), all of polyp p_1."""
    folder = tmp_path / "p_annotations"
    folder.mkdir()
    for i, boxes in enumerate(frames):
        objects = [VocObject("p_1", k + 1, *edges) for k, edges in enumerate(boxes)]
        text = format_voc(VocFrame("p_frames", f"p_{i}.jpg", _W, _H, objects))
        (folder / f"p_{i}.xml").write_text(text)
    return ProcedureSource("p", folder, None, frozenset({"p_1"}), strict)


@settings(deadline=None)
@given(st.lists(st.tuples(_box, _size), max_size=6))
def test_rounding_and_clamping_against_a_loop(rows: list[tuple[_Edges, tuple[int, int]]]) -> None:
    edges = np.array([box for box, _ in rows], dtype=np.float64).reshape(-1, 4)
    sizes = np.array([size for _, size in rows], dtype=np.float64).reshape(-1, 2)
    naive = []
    for (left, top, right, bottom), (width, height) in rows:
        l, r = (min(max(round(v), 0), width - 1) for v in (left, right))  # noqa: E741
        t, b = (min(max(round(v), 0), height - 1) for v in (top, bottom))
        naive.append([l, t, r - l, b - t])
    np.testing.assert_array_equal(to_xywh(edges, sizes), np.array(naive).reshape(-1, 4))


def test_boxes_come_in_the_order_of_the_frames(tmp_path: Path) -> None:
    frames: list[list[_Edges]] = [[] for _ in range(12)]
    frames[10], frames[9] = [(1, 2, 11, 22)], [(-3, 40.6, 20.4, 90)]
    read = read_boxes(_source(tmp_path, *frames))
    assert (read.width, read.height, read.n_files) == (_W, _H, 12)
    assert read.boxes.select("frame", "x", "y", "w", "h", "polyp_id", "image").rows() == [
        (9, 0, 41, 20, 6, "p_1", None),
        (10, 1, 2, 10, 20, "p_1", None),
    ]
    assert read.faults.lines() == []


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ((5, 5, 5, 20), "p_1.xml (5, 5, 5, 20): box of no area; correct the box or take it out"),
        ((20, 5, 10, 20), "p_1.xml (20, 5, 10, 20): box of no area"),
        ((70, 5, 80, 20), "p_1.xml (70, 5, 80, 20): box wholly outside the image"),
        ((5, -20, 10, -1), "p_1.xml (5, -20, 10, -1): box wholly outside the image"),
        ((1, 2, 3, float("nan")), "p_1.xml (1, 2, 3, nan): box with an edge that is not finite"),
        ((1, 2, float("inf"), 9), "p_1.xml (1, 2, inf, 9): box with an edge that is not finite"),
    ],
)
def test_boxes_that_cannot_be_used(tmp_path: Path, box: _Edges, message: str) -> None:
    marked = _source(tmp_path, [(1, 1, 9, 9)], [], [(1, 1, 9, 9)])
    path = marked.annotations / "p_1.xml"
    frame = VocFrame("p_frames", "p_1.jpg", _W, _H, [VocObject("p_1", 1, 11, 12, 13, 14)])
    text = format_voc(frame)
    for tag, old, new in zip(("xmin", "ymin", "xmax", "ymax"), (11, 12, 13, 14), box, strict=True):
        text = text.replace(f"<{tag}>{old}<", f"<{tag}>{new}<")
    path.write_text(text)
    with pytest.raises(PolyplinkError) as error:
        read_boxes(marked)
    assert message in str(error.value)
    read = read_boxes(replace(marked, strict=False))
    assert read.boxes["frame"].to_list() == [0, 2]
    (line,) = read.faults.lines()
    assert line.startswith("1 x box ")
    assert "left out (first: p_1.xml" in line


def test_unknown_polyp_and_box_without_one(tmp_path: Path) -> None:
    source = _source(tmp_path, [(1, 1, 9, 9)])
    unknown = replace(source, polyp_ids=frozenset({"p_2"}))
    with pytest.raises(PolyplinkError, match=r"p_0\.xml, p_1: box of a polyp that lesion_info"):
        read_boxes(unknown)
    assert read_boxes(replace(unknown, strict=False)).boxes.is_empty()
    path = source.annotations / "p_0.xml"
    path.write_text(path.read_text().replace("<unique_id>p_1</unique_id>", ""))
    read = read_boxes(source)
    assert read.boxes["polyp_id"].to_list() == [None]
    assert read.faults.lines() == ["1 x box without unique_id (first: p_0.xml)"]


def test_two_boxes_of_one_polyp_in_a_frame_are_both_kept_and_told(tmp_path: Path) -> None:
    box, other = (1, 1, 9, 9), (20, 20, 30, 30)
    read = read_boxes(_source(tmp_path, [box], [box, other], [box, other, other]))
    assert read.boxes["frame"].to_list() == [0, 1, 1, 2, 2, 2]
    assert read.faults.lines() == [
        "3 x further box of a polyp in one frame, both kept (first: p_1.xml)"
    ]


def test_truncated_file(tmp_path: Path) -> None:
    source = _source(tmp_path, [(1, 1, 9, 9)], [(1, 1, 9, 9)], [(1, 1, 9, 9)])
    path = source.annotations / "p_1.xml"
    path.write_text(path.read_text()[:200])
    with pytest.raises(PolyplinkError, match=r"p_1\.xml is not whole XML .*; download or unpack"):
        read_boxes(source)
    read = read_boxes(replace(source, strict=False))
    assert read.boxes["frame"].to_list() == [0, 2]
    assert "1 x annotation file that cannot be read, left out" in read.faults.lines()[0]


def test_folder_without_annotations(tmp_path: Path) -> None:
    source = _source(tmp_path)
    with pytest.raises(PolyplinkError, match=r"has no annotations \(\*\.xml\); unpack"):
        read_boxes(source)
    (source.annotations / "p_0.xml").write_text("<annotation>")
    with pytest.raises(PolyplinkError, match="has no annotation that can be read"):
        read_boxes(replace(source, strict=False))


def test_images_are_named_and_missing_ones_cut_the_tracklet(tmp_path: Path) -> None:
    box = (1, 1, 9, 9)
    frames = tmp_path / "p_frames"
    frames.mkdir()
    source = replace(_source(tmp_path, [box], [box, box], [], [box]), frames=frames)
    for i in (0, 1, 3):
        (frames / f"p_{i}.jpg").touch()
    assert read_boxes(source).boxes["image"].to_list() == [
        f"p_frames/p_{i}.jpg" for i in (0, 1, 1, 3)
    ]
    (frames / "p_1.jpg").unlink()
    with pytest.raises(PolyplinkError, match=r"p_frames/p_1\.jpg: frame with a box without an im"):
        read_boxes(source)
    read = read_boxes(replace(source, strict=False))
    assert read.boxes["frame"].to_list() == [0, 3]
    assert "2 x frame with a box without an image, left out" in read.faults.lines()[0]


def test_frames_of_another_size_are_clamped_to_their_own(tmp_path: Path) -> None:
    source = _source(tmp_path, [(1, 1, 9, 9)], [])
    wide = VocFrame("p_frames", "p_1.jpg", 100, _H, [VocObject("p_1", 1, 1, 1, 90, 9)])
    (source.annotations / "p_1.xml").write_text(format_voc(wide))
    read = read_boxes(source)
    assert read.boxes["w"].to_list() == [8, 89]
    assert "1 x frame of another size" in read.faults.lines()[0]
