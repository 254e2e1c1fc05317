from importlib.resources import as_file, files
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.real_colon_tables import read_lesion_info, read_video_info

_RELEASED = files("polyplink.data") / "released" / "real_colon"


def test_released_tables() -> None:
    with as_file(_RELEASED / "video_info.csv") as path:
        videos = read_video_info(path)
    with as_file(_RELEASED / "lesion_info.csv") as path:
        lesions = read_lesion_info(path)
    assert (videos.height, lesions.height) == (60, 132)
    assert videos["n_frames"].sum() == 2_757_723
    assert videos["num_lesions"].sum() == 131
    # One misspelling and four of one spelling against two of the other: eight segments remain.
    assert set(lesions["location"]) == {
        "ascending", "cecum", "descending", "hepatic_flexure", "rectum", "sigma",
        "splenic_flexure", "transverse",
    }  # fmt: skip
    assert (lesions["location"] == "cecum").sum() == 6
    assert lesions["size_mm"].max() == 17


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"video_info\.csv is missing; download it"):
        read_video_info(tmp_path / "video_info.csv")


def test_missing_column_and_bad_value(tmp_path: Path) -> None:
    path = tmp_path / "lesion_info.csv"
    head = '"unique_object_id","unique_video_name","{}","site","histology_extended"'
    path.write_text(head.format("size [mm]") + "\n")
    with pytest.raises(PolyplinkError, match=r"lesion_info\.csv has no column 'histology_class'"):
        read_lesion_info(path)
    path.write_text(head.format("size") + ',"histology_class"\n')
    with pytest.raises(PolyplinkError, match=r"has no column 'size \[mm\]'; take the file as"):
        read_lesion_info(path)
    row = '"001-001_1","001-001","five","sigma","HP","HP"\n'
    path.write_text(head.format("size [mm]") + ',"histology_class"\n' + row)
    with pytest.raises(PolyplinkError, match=r"table lesion_info\.csv: column size .* 'five'"):
        read_lesion_info(path)


def test_not_a_table(tmp_path: Path) -> None:
    path = tmp_path / "video_info.csv"
    path.write_text("")
    with pytest.raises(PolyplinkError, match=r"video_info\.csv is not a table .*download it again"):
        read_video_info(path)


def test_names_that_look_like_numbers_stay_names(tmp_path: Path) -> None:
    path = tmp_path / "video_info.csv"
    path.write_text(
        "unique_video_name,age,sex,endoscope_brand,fps,num_frames,num_lesions,bbps\n007,,,,,10,0,\n"
    )
    row = read_video_info(path).row(0, named=True)
    assert row["procedure_id"] == "007"
    assert row["age"] is row["sex"] is row["fps"] is None
