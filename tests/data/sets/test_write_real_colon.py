import hashlib
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import (
    DataSet,
    annotations_folder,
    frame_stem,
    frames_folder,
    lesion_info,
    parse_voc,
    positive_frames,
    video_info,
    write_annotations,
    write_real_colon,
    write_tables,
)
from tests.data.made_sets import data_set, procedure_row, small_set


def _released(name: str) -> str:
    return (files("polyplink.data") / "released" / "real_colon" / name).read_text()


def _digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_names() -> None:
    assert annotations_folder("001-001") == "001-001_annotations"
    assert frames_folder("001-001") == "001-001_frames"
    assert frame_stem("001-001", 12) == "001-001_12"


def test_one_file_for_every_frame_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    data = small_set()
    write_real_colon(data, tmp_path / "a")
    write_real_colon(data, tmp_path / "b")
    files = _digests(tmp_path / "a")
    assert files == _digests(tmp_path / "b")
    expected = {"video_info.csv", "lesion_info.csv"}
    for procedure_id, n_frames in data.procedures.select("procedure_id", "n_frames").iter_rows():
        for i in range(n_frames):
            expected.add(f"{procedure_id}_annotations/{procedure_id}_{i}.xml")
    assert set(files) == expected


def test_boxes_of_a_frame_are_numbered_from_one(tmp_path: Path) -> None:
    write_annotations(small_set(), "001-001", tmp_path)
    path = tmp_path / "001-001_annotations" / "001-001_1.xml"
    frame = parse_voc(path.read_text(), path.name)
    assert (frame.folder, frame.filename) == ("001-001_frames", "001-001_1.jpg")
    assert [(o.box_id, o.unique_id) for o in frame.objects] == [
        (1, "001-001_1"),
        (2, "001-001_2"),
    ]
    assert (frame.objects[0].xmin, frame.objects[0].xmax) == (11, 31)
    assert (frame.objects[0].ymin, frame.objects[0].ymax) == (8, 24)


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


def test_folders_that_are_there_are_kept_only_when_asked(tmp_path: Path) -> None:
    data = small_set()
    write_real_colon(data, tmp_path)
    before = _digests(tmp_path)
    with pytest.raises(PolyplinkError, match="001-001_annotations exists already"):
        write_real_colon(data, tmp_path)
    kept = tmp_path / "001-001_annotations" / "001-001_0.xml"
    kept.write_text("mine")
    (tmp_path / "001-009_annotations" / "001-009_0.xml").unlink()
    write_real_colon(data, tmp_path, keep=True)
    assert kept.read_text() == "mine"
    assert len(_digests(tmp_path)) == len(before) - 1


def test_annotations_are_whole_or_absent(tmp_path: Path) -> None:
    data = small_set()
    blocked = tmp_path / "root"
    blocked.write_text("a file where a folder should be")
    with pytest.raises(OSError, match="root"):
        write_annotations(data, "001-001", blocked)
    late = data_set([("a", 9, 1, 1, 5, 5, None)], [], [procedure_row("a", 6)])
    with pytest.raises(
        PolyplinkError, match="procedure a: a box in frame 9 of 6; correct n_frames"
    ):
        write_annotations(late, "a", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_unknown_procedure(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no procedure '009-001'; name one of"):
        write_annotations(small_set(), "009-001", tmp_path)
