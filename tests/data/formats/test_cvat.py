import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.conversion import convert
from polyplink.data.formats import cvat
from polyplink.data.formats.cvat import import_cvat, write_cvat
from polyplink.data.tables import DataSet
from tests.data.formats.cvat_files import TASK, box, document, named, track, write
from tests.data.sample_sets import scored_set
from tests.data.videos import write_video


def test_an_export_is_imported(tmp_path: Path) -> None:
    """`outside` ends a tracklet; a polyp is named, unnamed, or, without attribute, its track."""
    end = box(2).replace('outside="0"', 'outside="1"')
    path = write(
        tmp_path,
        track(box(0, inner=named("A &amp; B")), box(1, inner=named(" A &amp; B ")), end, box(5)),
        track(box(4, inner=named("")), number=4),
    )
    write_video(tmp_path / "clip.mp4", 9)
    imported = import_cvat(path)
    rows = imported.data.detections.select("frame", "polyp_id", "image").rows()
    assert rows == [
        (0, "A & B", "clip.mp4#0"),
        (1, "A & B", "clip.mp4#1"),
        (4, None, "clip.mp4#4"),
        (5, "clip_3", "clip.mp4#5"),
    ]
    assert imported.data.detections.select(*"xywh").row(0) == (1.5, 2, 10, 10.25)
    row = imported.data.procedures.row(0, named=True)
    columns = ("procedure_id", "n_frames", "width", "height")
    assert tuple(row[name] for name in columns) == ("clip", 9, 64, 48)
    assert import_cvat(path, identity="none").data.polyps.is_empty()
    by_clear = import_cvat(path, attribute="clear").data.detections["polyp_id"].to_list()
    assert by_clear == ["true", "true", "true", "clip_3"]


def test_an_exported_archive_with_images_is_imported(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "task.zip", "w") as archive:
        archive.writestr("annotations.xml", document(track(box(1, inner=named("p")))))
        archive.writestr("images/frame_000001.PNG", b"")
    image = "task.zip!/images/frame_000001.PNG"
    for source in (tmp_path, tmp_path / "task.zip"):
        assert import_cvat(source).data.detections["image"].to_list() == [image]


def test_tasks_of_a_project_and_files_of_a_folder_are_procedures(tmp_path: Path) -> None:
    other = TASK.replace("<id>7<", "<id>8<").replace(">clip<", ">other<")
    meta = f"<project><id>1</id><name>both</name><tasks>{TASK}{other}</tasks></project>"
    path = write(
        tmp_path,
        track(box(0), fields='task_id="7"'),
        track(box(0), number=4, fields='task_id="8"'),
        track(box(0), number=5, fields='task_id="9"'),
        meta=meta,
    )
    imported = import_cvat(path)
    rows = imported.data.detections.select("procedure_id", "polyp_id").rows()
    assert rows == [("clip", "clip_3"), ("other", "other_4")]
    assert "1 x box without a procedure, left out" in imported.lines[0]
    (tmp_path / "again.xml").write_text(document(track(box(0))))
    with pytest.raises(PolyplinkError, match="two tasks are called 'clip'; give every task"):
        import_cvat(tmp_path)


def test_several_labels_and_rotated_boxes_are_reported(tmp_path: Path) -> None:
    tool = track(box(0, fields='rotation="12.5"'), number=5).replace('"polyp"', '"tool"')
    warnings = import_cvat(write(tmp_path, track(box(0)), tool)).lines
    assert "tracks of 2 labels, all read as polyps (polyp, tool)" in warnings
    rotated = "1 x rotated box, read as upright (annotations.xml, track 5, frame 0)"
    assert rotated in warnings


def test_polygons_are_read_as_the_boxes_around_them(tmp_path: Path) -> None:
    polygon = '<polygon frame="{}" outside="0" points="{}"><attribute name="polyp_id">A</attribute>'
    shapes = [
        polygon.format(frame, points) + "</polygon>"
        for frame, points in ((1, "9.5,3;30,8.25;12,20"), (2, "9,3;30,8"), (3, "9,3;30,x;12,20"))
    ]
    imported = import_cvat(write(tmp_path, track(box(0, inner=named("A")), *shapes)))
    rows = imported.data.detections.select("frame", "x", "y", "w", "h", "polyp_id").rows()
    assert rows[1:] == [(1, 9.5, 3, 20.5, 17, "A")]
    assert "2 x shape of a track that is not a box" in str(imported.lines)


def test_an_attribute_that_no_box_has_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, track(box(0, inner=named(""))))
    assert import_cvat(path, attribute="clear").data.detections["polyp_id"].to_list() == ["true"]
    with pytest.raises(PolyplinkError, match="has an attribute 'clera'; give the name"):
        import_cvat(path, attribute="clera")


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, track(box(0)))
    text = path.read_text()
    path.write_text(text[:-20])
    with pytest.raises(PolyplinkError, match=r"is not valid XML .*; export the task again"):
        import_cvat(path)
    path.write_text(text.replace("annotations>", "annotation>"))
    with pytest.raises(PolyplinkError, match="is not of CVAT: its root is <annotation>"):
        import_cvat(path)
    path.write_text(text.replace("<track", '<image id="0" name="a.png"></image><track'))
    with pytest.raises(
        PolyplinkError, match="was exported as CVAT for images; export the task as CVAT for"
    ):
        import_cvat(path)
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("other.txt", "")
    with pytest.raises(PolyplinkError, match=r"has no annotations\.xml"):
        import_cvat(archive)


def test_entity_bombs_and_external_entities_are_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE annotations [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
    foreign = f'<!DOCTYPE annotations [<!ENTITY a SYSTEM "file://{tmp_path}/secret">]>'
    for kind in (bomb, foreign):
        path = write(tmp_path, track(box(0, inner=named("&a;"))))
        text = path.read_text().replace("<annotations>", f"{kind}<annotations>")
        path.write_text(text)
        with pytest.raises(PolyplinkError, match="has a document type, which is not read"):
            import_cvat(path)


def test_a_written_track_ends_where_its_polyp_disappears(tmp_path: Path) -> None:
    write_cvat(scored_set(), tmp_path)
    root = ET.parse(tmp_path / "001-001.xml").getroot()
    assert root.findtext("meta/task/name") == "001-001"
    assert root.findtext("meta/task/original_size/width") == "64"
    tracks = [
        [(box.get("frame"), box.get("outside")) for box in track] for track in root.iter("track")
    ]
    assert tracks == [[("0", "0"), ("1", "0"), ("2", "1")], [("1", "0"), ("2", "1")]]
    first = next(root.iter("box"))
    assert [first.get(edge) for edge in ("xtl", "ytl", "xbr", "ybr")] == [
        "10.5",
        "8.0",
        "30.5",
        "24.0",
    ]
    assert [(a.get("name"), a.text) for a in first] == [("polyp_id", "001-001_1"), ("score", "0.5")]


def test_a_name_with_a_slash_is_escaped_in_the_file_name(tmp_path: Path) -> None:
    scored = scored_set()
    names = pl.Series("procedure_id", ["a/b", "a_b"])
    procedures = scored.procedures.with_columns(names)
    write_cvat(DataSet.of(scored.detections.clear(), procedures, scored.polyps.clear()), tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.xml")) == ["a%2Fb.xml", "a_b.xml"]


def test_blanks_around_a_name_are_kept(tmp_path: Path) -> None:
    """Otherwise its boxes are of another procedure than its row in procedures.csv."""
    scored = scored_set()
    name = pl.col("procedure_id").replace({"001-001": "001-001 ", "001-009": " 001-009"})
    boxes, procedures, polyps = (
        table.with_columns(name) for table in (scored.detections, scored.procedures, scored.polyps)
    )
    data = DataSet.of(boxes, procedures, polyps)
    write_cvat(data, tmp_path)
    read = import_cvat(tmp_path).data
    assert sorted(read.procedures["procedure_id"]) == [" 001-009", "001-001 "]
    assert set(read.detections["procedure_id"]) == {" 001-009", "001-001 "}
    assert read.polyps.rows() == data.polyps.rows()


def test_blanks_around_polyp_ids_are_left_out_with_a_warning(tmp_path: Path) -> None:
    """An annotator types them by accident, so that one polyp would become two."""
    ids = pl.Series("polyp_id", ["a", " a", None, "a", "b "])
    boxes = scored_set().detections.head(1).select(pl.exclude("polyp_id", "frame"))
    boxes = boxes.join(ids.to_frame().with_row_index("frame"), how="cross")
    polyps = ids.drop_nulls().unique().to_frame().with_columns(procedure_id=pl.lit("001-001"))
    data = DataSet.of(boxes, scored_set().procedures, polyps)
    assert convert(data, "cvat", tmp_path) == [
        "2 x box with blanks around its polyp id, which is read without them"
    ]
    (tmp_path / "polyps.csv").unlink()
    imported = import_cvat(tmp_path)
    assert imported.data.detections["polyp_id"].to_list() == ["a", "a", None, "a", "b"]
    (line,) = map(str, imported.lines)
    assert line.startswith("2 x box with blanks around its polyp id, read without them (first: ")
    assert line.endswith("001-001.xml, track 1, frame 1)")
    (tmp_path / "unknown").mkdir()
    unknown = import_cvat(write(tmp_path / "unknown", track(box(0, inner=named("  ")))))
    assert unknown.data.polyps.is_empty()
    assert "blanks" not in " ".join(map(str, unknown.lines))


def test_reading_in_blocks_equals_reading_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes of all kinds, and boxes in comments, skeletons and outside of tracks."""
    rng = random.Random(0)
    kinds: list[Callable[[int], str]] = [
        lambda f: box(f, inner=named("a")),
        lambda f: box(f, inner=named(" b ")),
        lambda f: box(f, inner=named("A &amp; B")),
        lambda f: box(f, inner=named("\N{LATIN SMALL LETTER E WITH ACUTE}")),
        box,
        lambda f: box(f, inner=named("a")).replace("<box", '<box rotation="3.5"'),
        lambda f: f"<!-- {box(f, inner=named('a'))} -->",
        lambda f: f'<skeleton frame="{f}">{box(f, inner=named("a"))}</skeleton>',
        lambda f: f"<![CDATA[{box(f, inner=named('a'))}]]>",
        lambda f: box(f, inner=named("a")).replace("><attr", ">\n<attr"),
    ]
    tracks = [
        track(*(rng.choice(kinds[: 1 + 3 * t])(f) for f in range(9)), number=t) for t in range(4)
    ]
    path = write(tmp_path, *tracks, box(7, inner=named("a")), meta=TASK.replace("9", "99"))
    at_once = import_cvat(path)
    monkeypatch.setattr(cvat, "_BLOCK", 700)
    monkeypatch.setattr(cvat, "_ROWS", 3)
    imported = import_cvat(path)
    assert imported.data.detections.equals(at_once.data.detections)
    assert imported.lines == at_once.lines
    assert imported.data.key == at_once.data.key
    assert imported.data.detections.height > 20
