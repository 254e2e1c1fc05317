from pathlib import Path

from polyplink.data.formats.write_csv import write_csv
from tests.data.box_sets import seen_set


def test_three_files_with_our_names(tmp_path: Path) -> None:
    write_csv(seen_set(), tmp_path)
    names = ["detections.csv", "polyps.csv", "procedures.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    lines = (tmp_path / "detections.csv").read_text().splitlines()
    assert lines[:2] == [
        "procedure_id,frame,x,y,w,h,score,polyp_id,image",
        "001-001,0,10.5,8.0,20.0,16.0,0.5,001-001_1,",
    ]
