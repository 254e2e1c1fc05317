"""CSV files of boxes, tables as text, frame numbers in file names, and the side tables."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.text_tables import read_text_table
from polyplink.data.formats.assemble import no_number, number
from polyplink.data.formats.csv import import_csv
from polyplink.data.formats.frame_names import name_frames
from polyplink.data.formats.side_tables import number_polyps, read_side_tables, write_side_tables
from polyplink.data.tables import DataSet
from tests.data.sample_sets import box_sets
from tests.data.videos import write_video


def test_texts_are_not_converted_to_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in ("id, x\n001,1.50\n", "id;x\n001;1.50\n", "id\tx\r\n001\t1.50\r\n"):
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        table = read_text_table(path, ["id"])
        assert table.columns == ["id", "x"]
        assert table.row(0) == ("001", "1.50")
    path.write_text('id,x\n"two\nlines, and ""more""",é\n')
    assert read_text_table(path, ["id"]).row(0) == ('two\nlines, and "more"', "é")


def test_invalid_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(PolyplinkError, match=r"a\.csv is missing; check the path"):
        read_text_table(path, "a")
    for content, message in (
        (b"", "is not a table"),
        (b"a;b\n1;2\n\n1;2;3\n", "is not a table .line 4 has 3 values, its header 2"),
        (b"a,b,a\n1,2,3\n", "has two columns with the same name"),
        (b"a, a\n1,2\n", "has two columns with the same name"),
        ("é,b\n".encode("latin-1"), "is not UTF-8 text"),
        (b"a,b\n" + "é,1\n".encode("latin-1"), "is not"),
    ):
        path.write_bytes(content)
        with pytest.raises(PolyplinkError, match=message):
            read_text_table(path, "a")


def test_numbers_are_parsed_and_other_texts_are_marked() -> None:
    table = pl.DataFrame({"v": [" 1.5 ", "1e2", "x", "", " ", None]})
    assert table.select(number("v"))["v"].to_list() == [1.5, 100, None, None, None, None]
    marked = table.select(no_number("v").fill_null(False))["v"].to_list()
    assert marked == [False, False, True, False, False, False]


def test_name_frames_splits_procedure_frame_and_part() -> None:
    for name, expected in (
        ("001-001_12.jpg", ("001-001", 12, None)),
        ("001-012_40104.0.txt", ("001-012", 40104, None)),
        ("a_b_3_000012.txt", ("a_b_3", 12, None)),
        ("Video01_frame0000.jpg", ("Video01", 0, None)),
        ("case7/0001.jpg", ("case7", 1, None)),
        ("case7/frame_000012.PNG", ("case7", 12, None)),
        ("case7/image-12.png", ("case7", 12, None)),
        ("centre/case7/12.png", ("centre/case7", 12, None)),
        ("train/case7/12.txt", ("case7", 12, "train")),
        ("val/001-001_12.txt", ("001-001", 12, "val")),
        ("folder/001-001_12", ("001-001", 12, None)),
        ("case7_frame_3_jpg.rf.0aB9.jpg", ("case7", 3, None)),
        ("images/3fa85f64-case7_3.jpg", ("3fa85f64-case7", 3, None)),  # alone, it may be the name
        ("12.jpg", (None, 12, None)),
        ("train/12.jpg", (None, 12, "train")),
        ("polyp.jpg", (None, None, None)),
        ("case7/polyp.jpg", (None, None, None)),
        ("training/12.jpg", ("training", 12, None)),
        ("v_99999999999.jpg", (None, None, None)),
        (None, (None, None, None)),
    ):
        assert name_frames(pl.Series([name], dtype=pl.String)).row(0) == expected, name


def test_folders_with_files_of_one_name_are_procedures() -> None:
    names = [
        "a/x_1.txt",
        "a/x_2.txt",
        "val/b/x_2.txt",
        "b/y_2.txt",
        "c/z_1.txt",
        "d/z_2.txt",
        "x_9",
    ]
    rows = name_frames(pl.Series(names)).select("procedure_id", "frame").rows()
    assert rows == [("a", 1), ("a", 2), ("b/x", 2), ("y", 2), ("z", 1), ("z", 2), ("x", 9)]
    parts = name_frames(pl.Series(["train/x_1.txt", "val/x_1.txt"]))  # parts are no procedures
    assert parts["procedure_id"].to_list() == ["x", "x"]


def test_the_codes_of_label_studio_are_no_part_of_the_procedure() -> None:
    names = ["images/3fa85f64-case7_3.jpg", "images/01234567-case7_4.jpg"]
    assert name_frames(pl.Series(names)).rows() == [("case7", 3, None), ("case7", 4, None)]
    for others in (["20240102-a_3", "20240103-a_4"], [names[0], names[0]], [names[0], "a_4"]):
        alone = [name_frames(pl.Series([name])).row(0) for name in others]
        assert name_frames(pl.Series(others)).rows() == alone


@given(
    st.text("ab_-0123 é", min_size=1, max_size=8).filter(lambda s: s == s.strip()),
    st.integers(0, 10**9),
)
def test_any_folder_name_and_number_is_split(procedure_id: str, frame: int) -> None:
    names = pl.Series([f"{procedure_id}/{frame}.jpg", f"{procedure_id}/{frame:06d}.txt"])
    assert name_frames(names).rows() == [(procedure_id, frame, None)] * 2


@settings(max_examples=5)
@given(box_sets())
def test_reading_undoes_writing_of_side_tables_and_tracks_are_unique(data: DataSet) -> None:
    tracks = number_polyps(data)
    assert not tracks.select("procedure_id", "track").is_duplicated().any()
    assert set(data.polyps["polyp_id"]) <= set(tracks["polyp_id"])
    with TemporaryDirectory() as folder:
        write_side_tables(data, Path(folder), tracks)
        procedures, polyps = read_side_tables(Path(folder), Faults())
    assert procedures.equals(data.procedures)
    assert polyps.drop("track").equals(data.polyps)
    assert polyps["track"].to_list() == [str(t) for t in tracks["track"]]
    numbered_two = tracks.filter(tracks["polyp_id"] == tracks["procedure_id"] + "_2")
    assert numbered_two["track"].is_in([2]).all()


def test_missing_side_tables_are_empty_and_invalid_ones_are_refused(tmp_path: Path) -> None:
    assert all(table.is_empty() for table in read_side_tables(tmp_path, Faults()))
    (tmp_path / "procedures.csv").write_text("procedure_id,width,widht\nv,64,1\n")
    faults = Faults()
    assert read_side_tables(tmp_path, faults)[0]["width"].to_list() == [64]
    assert [*map(str, faults.messages)] == [
        "1 x unknown column of procedures.csv, not read (widht)"
    ]
    (tmp_path / "procedures.csv").write_text("procedure_id,width\nv,wide\n")
    with pytest.raises(PolyplinkError, match=r"procedures\.csv: column width, row 0: 'wide'"):
        read_side_tables(tmp_path, Faults())
    (tmp_path / "procedures.csv").write_text("width\n64\n")
    with pytest.raises(PolyplinkError, match="column procedure_id is missing"):
        read_side_tables(tmp_path, Faults())


FRAME = "box without a frame number from 0"
HEADER = "procedure_id,frame,x,y,w,h,score,polyp_id,image\n"


def test_a_score_under_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("procedure_id,frame,x,y,w,h,Confidence\nv,3,1,2,3,4,0.5\n")
    with pytest.raises(PolyplinkError, match=r"'Confidence', but no column 'score'; rename it"):
        import_csv(tmp_path / "b.csv", size=(99, 99))


def test_a_csv_file_with_only_boxes_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("procedure_id,frame,x,y,w,h,room\nv,3,1,2,3.5,4,1\nv,0,1,2,3,4,1\n")
    imported = import_csv(path, size=(64, 48))
    row = imported.data.procedures.row(0, named=True)
    assert (row["n_frames"], row["width"], row["patient"], row["dataset"]) == (4, 64, "v", "mine")
    assert imported.data.detections["frame"].to_list() == [0, 3]
    assert imported.lines == [
        "1 x unknown column of mine.csv, not read (room)",
        "1 x procedure without a number of frames, set to its last frame + 1 (v)",
    ]
    rows = "v,0,1,2,3,4,,nan,\nv,1,1,2,3,4,,p,\nv,1,5,2,3,4,, ,\nv,1,7,2,3,4,,-1,\n"
    path.write_text(f"{HEADER}{rows}v,3000000000,1,2,3,4,,p,\n")
    imported = import_csv(path, size=(64, 48))
    assert imported.data.detections["polyp_id"].to_list() == [None, "p", None, None]
    assert imported.data.procedures["n_frames"].to_list() == [2]
    missing = "3 x polyp id that is blank, nan, none, null or -1, read as unknown (first: mine.csv"
    assert any(line.startswith(missing) for line in imported.lines)
    with pytest.raises(PolyplinkError, match=r"procedure v: width and height .* unknown; give"):
        import_csv(path)


def test_a_table_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    for text, column in (
        ("video,number,xmin\np,0,1\n", "procedure_id"),
        ("Boxes;;\nprocedure_id;frame;x\np;0;1\n", "procedure_id"),
        ("procedure_id,frame,x,y,w\nv,0,1,2,3\n", "h"),
    ):
        path.write_text(text)
        with pytest.raises(PolyplinkError, match=f"no column '{column}'; write the columns"):
            import_csv(path, size=(64, 48))


@pytest.mark.parametrize("row", ["v,0,10,12,20,20", "v,1,10,10,20,20", "v;0;1,5;12.5;-3;4"])
def test_a_table_of_boxes_without_a_header_is_named_as_such(tmp_path: Path, row: str) -> None:
    (tmp_path / "boxes.csv").write_text(f"{row}\n{row}\n")
    line = r"boxes.csv seems to have no header: .* number [01]; write .*: procedure_id, frame, x, y"
    with pytest.raises(PolyplinkError, match=line):
        import_csv(tmp_path, size=(64, 48))
    (tmp_path / "boxes.csv").write_text(f"{HEADER.strip()},2026\nv,0,1,2,3,4,,,,\n")
    assert import_csv(tmp_path, size=(64, 48)).data.detections.height == 1
    (tmp_path / "polyps.csv").write_text("p,v,7\n")
    with pytest.raises(PolyplinkError, match=r"polyps.csv .* number 7; .*: polyp_id, procedure_id"):
        import_csv(tmp_path, size=(64, 48))


@pytest.mark.parametrize(
    "text",
    [
        "procedure_id,frame,x,y,w,h,polyp_id\np,0,1,1,9,9,7.0\np,1,1,1,9,9,\n",  # of pandas
        "procedure_id, frame, x, y, w, h, polyp_id\np, 0, 1, 1, 9, 9, 7\np, 1, 1, 1, 9, 9,\n",
    ],
)
@pytest.mark.parametrize("polyp_id", ["7", "7.0"])
def test_an_id_of_a_box_is_that_of_the_table_of_polyps(
    tmp_path: Path, text: str, polyp_id: str
) -> None:
    (tmp_path / "boxes.csv").write_text(text)
    (tmp_path / "polyps.csv").write_text(f"polyp_id,procedure_id,size_mm\n{polyp_id},p,4\n")
    data = import_csv(tmp_path, size=(64, 48)).data
    assert data.detections["polyp_id"].to_list() == ["7", None]
    assert data.polyps.select("polyp_id", "size_mm").rows() == [("7", 4)]


def test_blank_rows_are_no_boxes(tmp_path: Path) -> None:
    rows = "v,0,1,2,3,4,,,\n\n,,,,,,,,\nv,x,1,2,3,4,,,\nv,1,1,2,3,4,,,\n\n"
    (tmp_path / "boxes.csv").write_text(HEADER + rows)
    imported = import_csv(tmp_path, size=(64, 48))
    left_out = [line for line in imported.lines if "left out" in line]
    assert left_out == [f"1 x {FRAME}, left out (boxes.csv, line 5)"]
    assert imported.places is not None
    assert imported.places.boxes["item"].to_list() == [0, 4]


def test_a_table_without_boxes_is_of_the_recording_given_with_it(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text(HEADER)
    video = write_video(tmp_path / "case7.mp4", 9)
    imported = import_csv(tmp_path / "boxes.csv", video=video)
    assert imported.data.procedures.select("procedure_id", "n_frames").rows() == [("case7", 9)]
    assert imported.data.detections.is_empty()
    with pytest.raises(PolyplinkError, match="name it with --video FILE"):
        import_csv(tmp_path / "boxes.csv", video=tmp_path)


def test_a_track_is_a_polyp_however_its_number_is_written(tmp_path: Path) -> None:
    rows = "v,0,1,2,3,4,7.0\nv,1,1,2,3,4,7\nv,1,9,2,3,4,-1.0\nv,1,5,2,3,4,8\n"
    (tmp_path / "boxes.csv").write_text(f"procedure_id,frame,x,y,w,h,track\n{rows}")
    (tmp_path / "polyps.csv").write_text("procedure_id,polyp_id,track\nv,p,7\nv,q,8.0\n")
    imported = import_csv(tmp_path, size=(64, 48))
    assert imported.data.detections["polyp_id"].to_list() == ["p", "p", None, "q"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sep=;\nprocedure_id;frame;x;y;w;h\nv;0;1;2;3;4\n", "the line 'sep=;' .*; remove"),
        ("Procedure_ID,frame,x,y,w,h\nv,0,1,2,3,4\n", "rename the column 'Procedure_ID'"),
        ("procedure_id;frame;x;y;w;h\nv;0;1;2,5;3;4\n", "decimal commas in the column y; write"),
        (f'{HEADER}v,0,1,2,3,4,"0,9",,\nv,1,1,2,3,4,,,\n', "decimal commas in the column score"),
    ],
)
def test_the_spelling_of_spreadsheets_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "boxes.csv").write_text(text)
    with pytest.raises(PolyplinkError, match=message):
        import_csv(tmp_path, size=(64, 48))


def test_images_and_frames_of_videos_are_named(tmp_path: Path) -> None:
    rows = ["v,0,1,2,3,4,,,v.mp4#0", "v,1,1,2,3,4,,,v.mp4#1", "w,0,1,2,3,4,,,w/0.jpg"]
    (tmp_path / "detections.csv").write_text(HEADER + "\n".join(rows) + "\n")
    write_video(tmp_path / "v.mp4", 3)
    imported = import_csv(tmp_path, size=(64, 48))
    assert imported.data.detections["image"].to_list() == ["v.mp4#0", "v.mp4#1", None]
    assert "1 x procedure without any of its images (w/0.jpg)" in imported.lines
    bare = import_csv(tmp_path, size=(64, 48), images=False)
    assert bare.data.detections["image"].null_count() == 3
