from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.mot import import_mot, write_mot
from polyplink.data.tables import TABLES, DataSet
from tests.data.formats.text_files import INFO, write_sequence
from tests.data.sample_sets import box_sets, scored_set
from tests.data.videos import write_video


@settings(max_examples=3)
@given(box_sets(scores=False))
def test_import_undoes_write_of_ground_truth(data: DataSet) -> None:
    with TemporaryDirectory() as folder:
        write_mot(data, Path(folder), kind="gt")
        imported = import_mot(Path(folder)).data
    for name in TABLES:
        assert getattr(imported, name).equals(getattr(data, name))


def test_ground_truth_is_imported(tmp_path: Path) -> None:
    """Frames from 1, an id of -1, an ignored line, several classes, and no side tables."""
    root = write_sequence(
        tmp_path, "1,3,1,2,3,4,1,1,0.5\n2,-1,1.5,2,3,4,1,7,1\n3,3,1,2,3,4,0,1,1\n"
    )
    imported = import_mot(root)
    rows = imported.data.detections.select("frame", "x", "polyp_id", "score").rows()
    assert rows == [(0, 1.0, "s_3", None), (1, 1.5, None, None)]
    row = imported.data.procedures.row(0, named=True)
    assert (row["n_frames"], row["fps"], row["width"], row["height"]) == (9, 25, 64, 48)
    assert imported.lines == [
        "1 x line marked as ignored (confidence 0) (s/gt.txt, line 3)",
        "boxes of 2 classes, all read as polyps (1, 7)",
        "1 x track treated as a separate polyp (--identity none if a tracker made it) (s_3)",
    ]
    again = import_mot(root / "s" / "gt" / "gt.txt")
    assert again.data.detections.equals(imported.data.detections)


def test_detections_and_results_are_imported(tmp_path: Path) -> None:
    root = write_sequence(tmp_path, "1,-1,1,2,3,4,0.5,-1,-1,-1\n2,-1,1,2,3,4,-1,-1,-1,-1\n", "det")
    data = import_mot(root, identity="none").data
    assert data.detections.select("score", "polyp_id").rows() == [(0.5, None), (None, None)]
    results = tmp_path / "results"
    results.mkdir()
    (results / "v.txt").write_text("4, 2, 1, 2, 3, 4\n")
    data = import_mot(results, size=(64, 48), strict=True).data
    assert data.detections.select("procedure_id", "frame", "polyp_id").rows() == [("v", 3, "v_2")]
    with pytest.raises(PolyplinkError, match="width and height of its frames are unknown"):
        import_mot(results)


def test_ground_truth_has_priority_over_detections_and_folders_are_parts(tmp_path: Path) -> None:
    write_sequence(tmp_path / "train", "1,1,1,2,3,4,1,1,1\n")
    write_sequence(tmp_path / "train", "1,-1,9,2,3,4,0.5\n", "det")
    imported = import_mot(tmp_path)
    assert imported.data.splits == {"train": ["s"]}
    assert imported.data.detections["x"].to_list() == [1]
    assert "detections beside ground truth, not read (s)" in imported.lines[0]
    assert import_mot(tmp_path, kind="det").data.detections["x"].to_list() == [9]
    write_sequence(tmp_path / "test", "1,-1,5,2,3,4,0.5\n", "det", name="c")
    assert import_mot(tmp_path).data.splits == {"train": ["s"], "test": ["c"]}
    with pytest.raises(PolyplinkError, match="no kind 'x'; give --kind gt or det"):
        import_mot(tmp_path, kind="x")


@pytest.mark.parametrize(("height", "used"), [("48", True), ("47", False)])
def test_the_only_video_nearby_is_used_unless_its_shape_is_another(
    tmp_path: Path, height: str, used: bool
) -> None:
    info = INFO.replace("imHeight=48", f"imHeight={height}")
    root = write_sequence(tmp_path / "boxes", "1,1,1,2,3,4,1,1,1\n", info=info)
    write_video(tmp_path / "other.mp4", 9)  # 64 x 48
    imported = import_mot(root)
    (image,) = imported.data.detections["image"]
    assert (image is not None) == used
    (warning,) = [w for w in imported.lines if "other.mp4" in w]
    assert ("used because it is the only one" in warning) == used


def test_images_are_those_of_a_video_or_of_img1(tmp_path: Path) -> None:
    info = INFO.replace("frameRate=25", "frameRate=30")
    root = write_sequence(tmp_path, "1,1,1,2,3,4,1,1,1\n2,1,1,2,3,4,1,1,1\n", info=info)
    write_video(root / "s.mp4", 9)
    data = import_mot(root).data
    assert data.detections["image"].to_list() == ["s.mp4#0", "s.mp4#1"]
    assert data.procedures["fps"].to_list() == [30]  # what the source states counts
    folder = root / "s" / "img1"
    folder.mkdir()
    for name in ("000001.jpg", "000002.JPG"):
        (folder / name).touch()
    for source, prefix in ((root, "s/"), (root / "s", ""), (root / "s" / "gt" / "gt.txt", "../")):
        images = import_mot(source).data.detections["image"].to_list()
        assert images == [f"{prefix}img1/000001.jpg", f"{prefix}img1/000002.JPG"]
    (folder / "000002.JPG").unlink()
    imported = import_mot(root)
    assert imported.data.detections["frame"].to_list() == [0]
    assert any("frame with a box without an image, left out" in w for w in imported.lines)


def test_invalid_files_are_refused(tmp_path: Path) -> None:
    root = write_sequence(tmp_path, "1 3 1 2 3 4\n")
    with pytest.raises(PolyplinkError, match="has no lines of 6 values and commas"):
        import_mot(root)
    write_sequence(tmp_path, "1,1,1,2,3,4\n", info=INFO.replace("imWidth=64", "imWidth=wide"))
    with pytest.raises(PolyplinkError, match="imwidth is 'wide'; write a number above 0"):
        import_mot(root)
    write_sequence(tmp_path, "1,1,1,2,3,4\n", info="imWidth=64\n")
    with pytest.raises(PolyplinkError, match=r"seqinfo\.ini cannot be read"):
        import_mot(root)
    write_sequence(tmp_path / "train", "1,1,1,2,3,4\n")
    write_sequence(tmp_path, "1,1,1,2,3,4\n")
    with pytest.raises(PolyplinkError, match="have the same sequence name; give every sequence"):
        import_mot(root)


def test_written_frames_count_from_one_and_polyps_have_numbers(tmp_path: Path) -> None:
    write_mot(scored_set(), tmp_path)
    lines = (tmp_path / "001-001" / "det" / "det.txt").read_text().splitlines()
    assert lines == [
        "1,1,10.5,8.0,20.0,16.0,0.5,-1,-1",
        "2,1,11.0,8.25,20.0,16.0,0.75,-1,-1",
        "2,2,40.0,30.0,10.0,10.0,-1.0,-1,-1",
    ]
    info = (tmp_path / "001-009" / "seqinfo.ini").read_text()
    assert "frameRate=25.0\nseqLength=4\nimWidth=64\nimHeight=48\n" in info
    write_mot(scored_set(), tmp_path, kind="gt")
    lines = (tmp_path / "001-009" / "gt" / "gt.txt").read_text().splitlines()
    assert lines == ["3,-1,5.0,5.0,9.0,9.0,1,1,1"]


def test_annotated_polyps_are_written_as_ground_truth(tmp_path: Path) -> None:
    scored = scored_set()
    annotated = scored.detections.with_columns(score=pl.lit(None, pl.Float32))
    for name, boxes, kind in (
        ("all", annotated.drop_nulls("polyp_id"), "gt"),
        ("some", annotated, "det"),  # a box without a polyp is no ground truth
    ):
        write_mot(DataSet.of(boxes, scored.procedures, scored.polyps), tmp_path / name)
        assert (tmp_path / name / "001-001" / kind / f"{kind}.txt").is_file()
