from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.data.conversion import convert
from polyplink.data.formats.yolo import import_yolo, mark_yolo, write_yolo
from polyplink.data.tables import DataSet
from tests.data.formats.text_files import write_labels
from tests.data.sample_sets import scored_set
from tests.data.videos import write_video


def test_the_output_of_a_tracker_is_imported(tmp_path: Path) -> None:
    """The sixth value is a score or a track; frames of a tracker count from 1."""
    root = write_labels(tmp_path, clip_1="0 0.5 0.5 0.5 0.25 3\n", clip_2="0 0.5 0.5 0.5 0.25\n")
    write_video(root / "clip.mp4", 9)
    imported = import_yolo(root, size=(64, 48), first_frame=1)
    rows = imported.data.detections.select("frame", "x", "y", "w", "h", "polyp_id", "image").rows()
    assert rows == [
        (0, 16, 18, 32, 12, "clip_3", "clip.mp4#0"),
        (1, 16, 18, 32, 12, None, "clip.mp4#1"),
    ]
    root = write_labels(tmp_path, clip_1="0 0.5 0.5 0.5 0.25 0.75\n")
    detections = import_yolo(root, size=(64, 48), first_frame=1).data.detections
    assert detections.select("score", "polyp_id").rows() == [(0.75, None), (None, None)]
    root = write_labels(tmp_path, clip_1="0 0.5 0.5 0.5 0.25 1\n")
    with pytest.raises(PolyplinkError, match="the sixth value may be a score or a track"):
        import_yolo(root, size=(64, 48))
    track = import_yolo(root, size=(64, 48), sixth="track").data.detections
    assert track["polyp_id"].to_list() == ["clip_1", None]
    score = import_yolo(root, size=(64, 48), sixth="score").data.detections
    assert score["score"].to_list() == [1, None]
    root = write_labels(tmp_path, clip_2="0 0.5 0.5 0.5 0.25 0.5 7\n1 0.5 0.5 0.5 0.25 -1 -1\n")
    imported = import_yolo(root, size=(64, 48))
    rows = imported.data.detections.select("score", "polyp_id").rows()
    assert rows == [(1, None), (0.5, "clip_7"), (None, None)]
    assert "boxes of 2 classes, all read as polyps (0, 1)" in imported.lines
    none = import_yolo(root, size=(64, 48), identity="none").data
    assert none.detections["polyp_id"].null_count() == 3


def test_outlines_are_read_as_the_boxes_around_them(tmp_path: Path) -> None:
    """Exports of Roboflow: outlines that end with their first point, and a hash in each name."""
    root = write_labels(
        tmp_path,
        **{
            "clip_1_jpg.rf.0a1B2c": "0 0.25 0.5 0.5 0.25 0.5 0.5 0.25 0.5\n0 0.5 0.5 0.5 0.25\n",
            "clip_2_png.rf.77": "0 0.25 0.5 0.5 0.25 0.5 0.75 0.375 0.5 7\n",
            "clip_3.jpg.rf.78": "0 0 0 1 0 1 1 text 0\n0 0 0 1 0 1 1 0\n",
        },
    )
    imported = import_yolo(root, size=(64, 48))
    rows = imported.data.detections.select("frame", "x", "y", "w", "h", "score", "polyp_id").rows()
    assert rows == [
        (1, 16, 12, 16, 12, None, None),
        (1, 16, 18, 32, 12, None, None),
        (2, 16, 12, 16, 24, None, "clip_7"),
    ]
    assert "2 x line that is not a box (class, 4 numbers, score, track)" in str(imported.lines)
    path = root / "labels" / "clip_2_png.rf.77.txt"
    marks = pl.DataFrame({"item": [0], "track_id": [3], "polyp": [1]})
    assert mark_yolo(path, marks, sixth="score")["tracks"] == path.read_bytes()[:-2] + b"3\n"


@pytest.mark.parametrize(
    ("further", "read", "outlines"),
    [
        ((" 0.75", " 0.5"), [(0.75, None), (0.5, None)], "score"),
        ((" 0.75 1", " 0.5 1"), [(0.75, "clip_1"), (0.5, "clip_1")], "score and track"),
        ((" 1", " 1"), [(None, "clip_1"), (None, "clip_1")], "track"),
    ],
)
def test_score_and_track_follow_an_outline_as_they_follow_a_box(
    tmp_path: Path,
    further: tuple[str, str],
    read: list[tuple[float | None, str | None]],
    outlines: str,
) -> None:
    """As Ultralytics writes the outlines of a segmentation with `save_conf` or while tracking."""
    outline = "0 0.25 0.5 0.5 0.25 0.5 0.75 0.375 0.5"
    first, second = (f"{outline}{text}" for text in further)
    root = write_labels(tmp_path, clip_1=f"{first}\n", clip_2=f"{second}\n")
    imported = import_yolo(root, size=(64, 48))
    columns = ("x", "y", "w", "h", "score", "polyp_id")
    rows = imported.data.detections.select(columns).rows()
    assert rows == [(16, 12, 16, 24, *values) for values in read]
    places = imported.places
    assert places is not None
    assert places.options["outlines"] == outlines
    marks = pl.DataFrame({"item": [0], "track_id": [9], "polyp": [1]})
    marked = mark_yolo(root / "labels" / "clip_1.txt", marks, **places.options)["tracks"]
    score = "" if read[0][0] is None else f" {read[0][0]}"
    assert marked.decode() == f"{outline}{score} 9\n"


def test_score_and_track_follow_a_single_outline(tmp_path: Path) -> None:
    root = write_labels(tmp_path, clip_1="0 0.25 0.5 0.5 0.25 0.5 0.75 0.375 0.5 0.75 3\n")
    row = import_yolo(root, size=(64, 48)).data.detections.row(0, named=True)
    assert (row["x"], row["w"], row["score"], row["polyp_id"]) == (16, 16, 0.75, "clip_3")


def test_sizes_come_from_each_image_and_folders_are_parts(tmp_path: Path) -> None:
    for part, name, size in (("train", "v_0", (64, 48)), ("train", "v_1", (128, 48)),
                             ("val", "w_0", (32, 32))):  # fmt: skip
        for kind in ("labels", "images"):
            (tmp_path / part / kind).mkdir(parents=True, exist_ok=True)
        (tmp_path / part / "labels" / f"{name}.txt").write_text("0 0.5 0.5 0.5 0.5\n")
        Image.new("RGB", size).save(tmp_path / part / "images" / f"{name}.PNG")
    imported = import_yolo(tmp_path)
    rows = imported.data.detections.select("procedure_id", "x", "w", "image").rows()
    assert rows == [
        ("v-128x48", 32, 64, "train/images/v_1.PNG"),
        ("v-64x48", 16, 32, "train/images/v_0.PNG"),
        ("w", 8, 16, "val/images/w_0.PNG"),
    ]
    assert imported.data.splits == {"train": ["v-64x48", "v-128x48"], "val": ["w"]}
    sizes = imported.data.procedures.select("procedure_id", "width", "height").rows()
    assert sizes == [("v-64x48", 64, 48), ("v-128x48", 128, 48), ("w", 32, 32)]
    assert any("frames of several sizes, divided into" in w for w in imported.lines)
    assert import_yolo(tmp_path, images=False).data.detections["image"].null_count() == 3
    (tmp_path / "val" / "images" / "w_0.PNG").write_bytes(b"no image")
    with pytest.raises(PolyplinkError, match="image that cannot be opened"):
        import_yolo(tmp_path, strict=True)
    imported = import_yolo(tmp_path)
    assert "1 x image that cannot be opened, left out (val/images/w_0.PNG)" in imported.lines
    assert {*imported.data.procedures["procedure_id"]} == {"v-64x48", "v-128x48"}
    assert imported.data.splits == {"train": ["v-64x48", "v-128x48"]}
    for number in range(2):
        (tmp_path / "train" / "images" / f"v_{number}.PNG").write_bytes(b"no image")
    with pytest.raises(PolyplinkError, match=r"v_0\.txt, line 1: the size of its frame is unknown"):
        import_yolo(tmp_path)


def test_labels_are_read_from_several_layouts(tmp_path: Path) -> None:
    line = "0 0.5 0.5 0.5 0.5\n"
    for name in (
        "labels/train/v_0.txt",
        "labels/train/v_1.TXT",
        "flat/u_0.txt",
        "valid/labels/w/3.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(line)
    (tmp_path / "labels" / "classes.txt").write_text("polyp")
    for name in ("images/train/v_0.jpeg", "flat/u_0.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    boxes = import_yolo(tmp_path, size=(64, 48), images=False).data.detections
    assert boxes.select("procedure_id", "frame").rows() == [("v", 0), ("v", 1), ("w", 3)]
    for source, image in (
        (tmp_path / "flat", "u_0.png"),
        (tmp_path / "labels", "../images/train/v_0.jpeg"),
    ):
        data = import_yolo(source, size=(64, 48)).data
        assert data.detections["image"][0] == image


def test_sizes_come_from_data_yaml(tmp_path: Path) -> None:
    data = scored_set()
    write_yolo(data, tmp_path)
    (tmp_path / "procedures.csv").unlink()
    boxes = import_yolo(tmp_path).data.detections
    assert boxes.drop("score").equals(data.detections.drop("score"))
    path = tmp_path / "data.yaml"
    path.write_text("\ufeff" + path.read_text().replace("width: 64", "width: wide # ?"))
    with pytest.raises(PolyplinkError, match="width is 'wide'; write a whole number of pixels"):
        import_yolo(tmp_path)


def test_sizes_of_the_side_table_come_before_others_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("v_0", "w_0"):
        write_labels(tmp_path, **{name: "0 0.5 0.5 0.5 0.5\n"})
        Image.new("RGB", (64, 48)).save(tmp_path / "images" / f"{name}.jpg")
    side = tmp_path / "procedures.csv"
    sizes = {"procedure_id,patient\nv,p\n": (64, 64), "procedure_id,width,height\nv,8,6\n": (8, 64)}
    for text, widths in sizes.items():
        side.write_text(text)
        data = import_yolo(tmp_path).data
        assert tuple(data.procedures["width"]) == widths
        assert data.detections["w"].to_list() == [width / 2 for width in widths]
    (tmp_path / "data.yaml").write_text("width: 32\nheight: 24\n")
    data = import_yolo(tmp_path).data
    assert data.procedures["width"].to_list() == [8, 32]
    assert data.detections["w"].to_list() == [4, 16]
    read = import_yolo(tmp_path, size=(100, 80))  # before all others
    assert read.data.procedures["width"].to_list() == [100, 100]
    assert read.data.detections["w"].to_list() == [50, 50]
    assert not any("beyond the image" in str(warning) for warning in read.warnings)


def test_an_image_without_a_number_in_its_name_is_a_procedure_of_one_frame(tmp_path: Path) -> None:
    (tmp_path / "labels" / "train").mkdir(parents=True)
    files = {"train/cju0qk": "0 0.5 0.5 0.5 0.5\n", "train/cju1": ""}
    root = write_labels(tmp_path, **files)
    for name in ("cju0qk", "cju1"):
        path = root / "images" / "train" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 48)).save(path)
    imported = import_yolo(root)
    assert imported.data.detections.select("procedure_id", "frame", "x").rows() == [
        ("cju0qk", 0, 16)
    ]
    assert imported.empty is not None
    assert imported.empty["procedure_id"].to_list() == ["cju1"]
    assert imported.data.splits == {"train": ["cju0qk", "cju1"]}


def test_labels_without_a_frame_and_second_labels_of_a_frame_are_left_out(tmp_path: Path) -> None:
    kinds = "without a procedure and a frame in its name", "further file of the same frame"
    root = write_labels(tmp_path, **dict.fromkeys(("v_0", "polyp", "v_00"), "0 0.5 0.5 0.5 0.5\n"))
    imported = import_yolo(root, size=(64, 48))
    assert imported.data.detections.height == 1
    assert all(any(kind in line for line in imported.lines) for kind in kinds)
    for path, kind in zip(("polyp", "v_00"), kinds, strict=True):
        with pytest.raises(PolyplinkError, match=kind):
            import_yolo(root, size=(64, 48), strict=True)
        (root / "labels" / f"{path}.txt").unlink()


def test_invalid_folders_and_options_are_refused(tmp_path: Path) -> None:
    root = write_labels(tmp_path, v_0="0 0.5 0.5 0.5 0.5\n")
    with pytest.raises(
        PolyplinkError, match="give the size of the frames with --size WxH, or put the images"
    ):
        import_yolo(root)
    with pytest.raises(PolyplinkError, match="no sixth 'x'; give --sixth score or track"):
        import_yolo(root, sixth="x")
    (root / "labels" / "v_0.txt").write_bytes("0 é".encode("latin-1"))
    with pytest.raises(PolyplinkError, match=r"v_0\.txt: label file that is not UTF-8 text"):
        import_yolo(root, size=(1, 1), strict=True)


def test_labels_without_any_box_are_refused_unless_they_are_empty(tmp_path: Path) -> None:
    line, fault = "0 0.5 0.5 0.5", "line that is not a box (class, 4 numbers, score, track)"
    hint = "write 5 to 7 values, or the class and at least four points"
    root = write_labels(tmp_path, v_0="", v_1=f"\n{line}\n{line}\n", v_2=line)
    with pytest.raises(PolyplinkError) as error:
        import_yolo(root, size=(64, 48))
    assert str(error.value) == (
        f"no line of {root} is a box: 3 x {fault}, left out (first: v_1.txt, line 2); {hint}"
    )
    imported = import_yolo(write_labels(tmp_path, v_1="", v_2=""), size=(64, 48))
    assert (imported.data.detections.height, imported.data.procedures.height) == (0, 1)
    imported = import_yolo(write_labels(tmp_path, v_1=line, v_2="0 0.5 0.5 1 1"), size=(64, 48))
    assert imported.lines[0].startswith(f"1 x {fault}, left out")
    assert imported.data.detections.height == 1


def test_parts_are_written_as_folders_and_a_procedure_with_the_name_of_a_part_is_refused(
    tmp_path: Path,
) -> None:
    scored = scored_set()
    data = DataSet.of(scored.detections, scored.procedures, scored.polyps, {"val": ["001-009"]})
    write_yolo(data, tmp_path)
    assert (tmp_path / "labels" / "val" / "001-009" / "000002.txt").is_file()
    again = import_yolo(tmp_path, workers=2).data
    assert (again.splits, again.key) == (data.splits, data.key)
    empty = scored.procedures.head(1).with_columns(procedure_id=pl.lit("001-012"))
    procedures = pl.concat([scored.procedures, empty])
    parts = {"train": ["001-001", "001-012"], "val": ["001-009"]}
    data = DataSet.of(scored.detections, procedures, scored.polyps, parts)
    lost = "1 x procedure without a box, which is read in no part"
    assert lost in convert(data, "yolo", tmp_path / "parts")
    parts["train"].remove("001-012")
    assert import_yolo(tmp_path / "parts").data.splits == parts
    train = pl.lit("train").alias("procedure_id")
    named_as_part = DataSet.of(
        scored.detections.head(1).with_columns(train),
        scored.procedures.head(1).with_columns(train),
        scored.polyps.clear(),
    )
    with pytest.raises(PolyplinkError, match="procedure 'train' has the name of a part"):
        write_yolo(named_as_part, tmp_path / "odd")


def test_written_boxes_are_relative_to_the_image_size(tmp_path: Path) -> None:
    write_yolo(scored_set(), tmp_path)
    folder = tmp_path / "labels" / "001-001"
    assert sorted(path.name for path in folder.iterdir()) == ["000000.txt", "000001.txt"]
    text = (folder / "000001.txt").read_text().splitlines()
    assert text[1] == f"0 0.703125 {35 / 48!r} 0.15625 {10 / 48!r} -1.0 2"
    assert "width: 64\nheight: 48\n" in (tmp_path / "data.yaml").read_text()
    with pytest.raises(PolyplinkError, match="labels exists already"):
        write_yolo(scored_set(), tmp_path)
