from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.csv import import_csv
from tests.data.films import write_film

HEADER = "procedure_id,frame,x,y,w,h,score,polyp_id,image\n"


def test_boxes_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("procedure_id,frame,x,y,w,h\nv,3,1,2,3.5,4\nv,0,1,2,3,4\n")
    imported = import_csv(path, size=(64, 48))
    row = imported.data.procedures.row(0, named=True)
    assert (row["n_frames"], row["width"], row["patient"], row["dataset"]) == (4, 64, "v", "mine")
    assert imported.data.detections["frame"].to_list() == [0, 3]
    assert imported.warnings == [
        "1 x procedure without a number of frames, taken as its last frame + 1 (first: v)",
        "1 x procedure of an unknown patient, taken as a patient of its own (first: v)",
    ]
    with pytest.raises(PolyplinkError, match=r"procedure v: width and height .* not known; give"):
        import_csv(path)


def test_images_and_frames_of_a_video(tmp_path: Path) -> None:
    rows = ["v,0,1,2,3,4,,,v.mp4#0", "v,1,1,2,3,4,,,v.mp4#1", "w,0,1,2,3,4,,,w/0.jpg"]
    (tmp_path / "detections.csv").write_text(HEADER + "\n".join(rows) + "\n")
    write_film(tmp_path / "v.mp4", 3)
    imported = import_csv(tmp_path, size=(64, 48))
    assert imported.data.detections["image"].to_list() == ["v.mp4#0", "v.mp4#1", None]
    assert "1 x procedure none of whose images exists (first: w/0.jpg)" in imported.warnings
    bare = import_csv(tmp_path, size=(64, 48), images=False)
    assert bare.data.detections["image"].null_count() == 3


def test_numbers_from_one(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text(f"{HEADER}v,1,1,2,3,4,,,\nv,2,1,2,3,4,,,\n")
    imported = import_csv(tmp_path, size=(64, 48))
    assert "labels seem to count frames from 1, the lowest number is 1" in imported.warnings[2]
    again = import_csv(tmp_path, size=(64, 48), first_frame=1)
    assert again.data.detections["frame"].to_list() == [0, 1]


def test_mistakes_of_files(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"has no detections\.csv; check the path"):
        import_csv(tmp_path)
    with pytest.raises(PolyplinkError, match=r"nowhere\.csv is missing; check the path"):
        import_csv(tmp_path / "nowhere.csv")
    path = tmp_path / "detections.csv"
    path.write_text("procedure_id,frame,x,y,w\nv,0,1,2,3\n")
    with pytest.raises(PolyplinkError, match="has no column 'h'; write the columns"):
        import_csv(path)
