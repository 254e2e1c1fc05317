"""Assembling the three tables from the boxes of a format."""

from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.assemble import BoxImport, assemble

SOURCE = Path("set.csv")


def boxes(*rows: dict[str, object]) -> pl.DataFrame:
    default = {"at": "line 1", "procedure_id": "v", "frame": 3, "x": 1, "y": 2, "w": 3, "h": 4}
    return pl.DataFrame([default | row for row in rows or ({},)])


def test_the_size_and_name_of_options_have_priority(tmp_path: Path) -> None:
    procedures = pl.DataFrame({"procedure_id": ["v"], "width": [9], "height": [9]})
    detections = boxes({"track": "5"})
    splits = {"a": ["v"], "b": ["v"]}
    sized = BoxImport(SOURCE, size=(64, 48))
    imported = assemble(detections, tmp_path, sized, procedures=procedures, splits=splits)
    row = imported.data.procedures.row(0, named=True)
    assert (row["width"], row["height"], row["dataset"]) == (64, 48, "set")
    assert imported.data.polyps["polyp_id"].to_list() == ["v_5"]
    assert "1 x procedure in more than one part (v)" in imported.lines
    reading = BoxImport(SOURCE, dataset="mine", identity="none")
    renamed = assemble(detections, tmp_path, reading, procedures=procedures)
    assert renamed.data.procedures["dataset"].to_list() == ["mine"]
    assert renamed.data.polyps.is_empty()
    with pytest.raises(PolyplinkError, match="no identity 'x'; give --identity track or none"):
        BoxImport(SOURCE, identity="x")


def test_side_tables_have_priority_and_missing_values_are_filled_with_a_warning(
    tmp_path: Path,
) -> None:
    (tmp_path / "procedures.csv").write_text("procedure_id,width,n_frames\na,70,7\n")
    (tmp_path / "polyps.csv").write_text("procedure_id,polyp_id,track,size_mm\nb,known,1,3\n")
    detections = boxes(
        {"procedure_id": "b", "frame": 4, "track": "1", "polyp_id": None},
        {"procedure_id": "b", "track": "1", "polyp_id": "p"},
        {"procedure_id": "c", "track": "2"},
    )
    sizes = {"procedure_id": ["b", "a", "c"], "width": [64, 3, 64], "height": [48, 50, 48]}
    procedures = pl.DataFrame(sizes)
    imported = assemble(detections, tmp_path, BoxImport(SOURCE), procedures=procedures)
    columns = ("procedure_id", "width", "height", "n_frames", "patient", "dataset")
    assert imported.data.procedures.select(columns).rows() == [
        ("a", 70, 50, 7, "a", "set"),
        ("b", 64, 48, 5, "b", "set"),
        ("c", 64, 48, 4, "c", "set"),
    ]
    assert imported.data.detections["polyp_id"].to_list() == ["p", "known", "c_2"]
    assert imported.data.polyps.select("polyp_id", "size_mm").rows() == [
        ("known", 3),
        ("p", None),
        ("c_2", None),
    ]
    assert imported.lines == [
        "1 x track treated as a separate polyp (--identity none if a tracker made it) (c_2)",
        "2 x procedure without a number of frames, set to its last frame + 1 (first: b)",
        "3 x procedure without a known patient, treated as a separate patient (first: a)",
    ]
    other = pl.DataFrame({"procedure_id": ["x"], "width": [64], "height": [48]})
    for reading, message in (
        (BoxImport(SOURCE), "procedure v: width and height of its frames are unknown"),
        (BoxImport(SOURCE, size=(64, 48)), "procedure x has no box and no number of frames"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            assemble(boxes(), tmp_path / "no", reading, procedures=other)


def test_a_source_of_the_side_table_is_relative_to_the_table(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    Image.new("RGB", (64, 48)).save(tmp_path / "frames" / "a.jpg")
    (tmp_path / "procedures.csv").write_text("procedure_id,source\nv,frames\n")
    data = assemble(boxes({"image": "a.jpg"}), tmp_path, BoxImport(SOURCE)).data
    assert data.detections["image"].to_list() == ["a.jpg"]
    assert data.procedures["source"].to_list() == [str(tmp_path.resolve() / "frames")]


def test_a_folder_keeps_its_name_after_a_dot(tmp_path: Path) -> None:
    for name, expected in (("exam.1", "exam.1"), ("exam.2.csv", "exam.2")):
        source = tmp_path / name
        source.touch() if name.endswith(".csv") else source.mkdir()
        data = assemble(boxes(), tmp_path, BoxImport(source, size=(64, 48))).data
        assert data.procedures["dataset"].to_list() == [expected]


def test_a_size_of_0_or_less_is_unknown(tmp_path: Path) -> None:
    polyps = "procedure_id,polyp_id,size_mm\nv,a,-1\nv,b,0\nv,c,4.5\n,,\n"
    (tmp_path / "polyps.csv").write_text(polyps)
    imported = assemble(boxes({"polyp_id": "a"}), tmp_path, BoxImport(SOURCE, size=(64, 48)))
    sizes = imported.data.polyps.select("polyp_id", "size_mm").rows()
    assert sizes == [("a", None), ("b", None), ("c", 4.5)]
    assert "2 x size of 0 mm or less, read as unknown (first: a)" in imported.lines


def test_two_rows_of_a_procedure_must_not_differ(tmp_path: Path) -> None:
    rows = "procedure_id,patient\nv,p1\nv,p1\n"
    (tmp_path / "procedures.csv").write_text(rows)
    reading = BoxImport(SOURCE, size=(64, 48))
    data = assemble(boxes(), tmp_path, reading).data
    assert data.procedures["patient"].to_list() == ["p1"]
    (tmp_path / "procedures.csv").write_text(f"{rows}v,p2\n")
    with pytest.raises(PolyplinkError, match="several rows of procedure 'v'; keep one"):
        assemble(boxes(), tmp_path, reading)


def test_a_polyp_id_of_two_procedures_is_split_and_the_first_fact_is_used(tmp_path: Path) -> None:
    facts = pl.DataFrame(
        {
            "procedure_id": ["w", "w", "w"],
            "polyp_id": ["1", "1", None],
            "track": [None, None, "3"],
            "size_mm": [3.0, 4.0, 5.0],
            "location": [None, "Trasnverse", None],
        }
    )
    detections = boxes(
        {"polyp_id": "1"},
        {"procedure_id": "w", "polyp_id": "1"},
        {"procedure_id": "w", "polyp_id": "2"},
        {"procedure_id": "w", "track": "3"},
    )
    reading = BoxImport(SOURCE, size=(64, 48))
    data = assemble(detections, tmp_path, reading, polyps=facts).data
    assert data.detections["polyp_id"].to_list() == ["v_1", "w_1", "2", "w_3"]
    assert data.polyps.select("polyp_id", "size_mm", "location").rows() == [
        ("w_1", 3.0, "transverse"),
        ("w_3", 5.0, None),
        ("v_1", None, None),
        ("2", None, None),
    ]
    kinds = [str(message.values["what"]) for message in reading.faults.messages]
    assert kinds[-2:] == [
        "polyp id in several procedures, changed to <procedure>_<id>",
        "polyp with several values for one fact, the first used",
    ]
    names = ["7.0", "nan", "None", "", " ", "-1"]  # as programs write a missing track
    tracks = boxes(*({"frame": i, "track": name} for i, name in enumerate(names)))
    data = assemble(tracks, tmp_path, BoxImport(SOURCE, size=(64, 48))).data
    assert data.detections["polyp_id"].to_list() == ["v_7", *[None] * 5]
    clash = boxes({"polyp_id": "1"}, {"polyp_id": "v_1"}, {"procedure_id": "w", "polyp_id": "1"})
    with pytest.raises(PolyplinkError, match="'v_1' would be two polyps; give every polyp its own"):
        assemble(clash, tmp_path, BoxImport(SOURCE, size=(64, 48)))
    unnamed = BoxImport(SOURCE, size=(64, 48), identity="none")
    assert assemble(detections, tmp_path, unnamed, polyps=facts).data.polyps.is_empty()


def test_first_frame_is_subtracted_and_sources_without_usable_boxes_are_refused(
    tmp_path: Path,
) -> None:
    data = assemble(boxes(), tmp_path, BoxImport(SOURCE, size=(9, 9), first_frame=3)).data
    assert data.detections["frame"].to_list() == [0]
    for side, value, problem in (("w", 0, "of no area"), ("x", 900, "wholly outside the image")):
        message = rf"no usable box among 1: 1 x box {problem}, left out \(line 1 .*; c"
        with pytest.raises(PolyplinkError, match=message):
            assemble(boxes({side: value}), tmp_path, BoxImport(SOURCE, size=(64, 48)))
    procedures = pl.DataFrame({"procedure_id": ["v"], "n_frames": [3]})
    empty = boxes().clear()
    sized = BoxImport(SOURCE, size=(64, 48))
    data = assemble(empty, tmp_path, sized, procedures=procedures).data
    assert (data.detections.height, data.procedures.height) == (0, 1)
