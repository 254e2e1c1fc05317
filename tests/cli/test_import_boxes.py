"""`import` of boxes with a recording or images, and of masks."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter, ImageOps

from polyplink import merge_data
from polyplink.data.empty import empty_files, read_empty
from polyplink.data.origin import read_warnings
from polyplink.data.tables import DataSet, read_data
from polyplink.learn.detector.frames import broken_warnings, read_frames, true_boxes
from polyplink.serve.desk import Desk
from polyplink.stills.annotated_stills import read_stills
from tests.cli.calls import assert_refused, polyplink, printed_json, succeed
from tests.conftest import SampleRun
from tests.data.videos import HEIGHT, WIDTH, write_video

FRAMES = 9


def write_boxes(name: str, folder: Path, first_frame: int | None = None) -> Path:
    """Write boxes in frames 0 and 3 of procedure `case7`, without size, rate or length."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [
        (int(name == "mot") if first_frame is None else first_frame) + frame for frame in (0, 3)
    ]
    if name == "csv":
        rows = "".join(f"case7,{n},10,10,20,10\n" for n in numbers)
        (folder / "boxes.csv").write_text(f"procedure_id,frame,x,y,w,h\n{rows}")
    elif name == "mot":
        (folder / "case7.txt").write_text("".join(f"{n},1,10,10,20,10,1\n" for n in numbers))
    elif name == "yolo":
        (folder / "labels").mkdir(exist_ok=True)
        for n in numbers:
            (folder / "labels" / f"case7_{n}.txt").write_text("0 0.5 0.5 0.25 0.25\n")
    elif name == "cvat":
        box = '<box frame="{}" xtl="10" ytl="10" xbr="30" ybr="20"/>'
        boxes = "".join(map(box.format, numbers))
        meta = "<meta><task><name>case7</name></task></meta>"
        text = f'<annotations>{meta}<track id="1" label="polyp">{boxes}</track></annotations>'
        (folder / "a.xml").write_text(text)
    else:
        images = [{"id": n, "file_name": "case7.mp4", "frame_id": n} for n in numbers]
        bboxes = [{"id": n, "image_id": n, "bbox": [10, 10, 20, 10]} for n in numbers]
        content = {"images": images, "annotations": bboxes}
        (folder / "instances.json").write_text(json.dumps(content))
    return folder


def import_data(name: str, source: Path, out: Path, *options: object) -> DataSet:
    succeed("import", name, source, out, *map(str, options))
    return read_data(out)


def write_image(path: Path, size: tuple[int, int] = (70, 50), grey: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (grey,) * 3).save(path)


def write_mask(path: Path, *boxes: tuple[int, int, int, int], numbers: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mask = np.zeros((50, 70), np.uint8)
    for number, (x, y, w, h) in enumerate(boxes, 1):
        mask[y : y + h, x : x + w] = number if numbers else 255
    Image.fromarray(mask).save(path)


@pytest.mark.parametrize("name", ["csv", "mot", "yolo", "cvat", "coco"])
def test_a_recording_near_the_boxes_is_read(name: str, tmp_path: Path) -> None:
    video = write_video(tmp_path / "case7.mp4", FRAMES)
    locations = ["case7.mp4"]
    if name == "csv":  # all formats look for videos in the same way
        locations = ["boxes/case7.mp4", "case7.mp4", "boxes/videos/case7.mp4", "boxes/any.mkv"]
        locations.append("elsewhere/any.mp4")
    source = write_boxes(name, tmp_path / "boxes")
    for location in locations:
        target = tmp_path / location
        target.parent.mkdir(exist_ok=True)
        video = video.rename(target)
        if location == "boxes/case7.mp4":  # the nearest video of the name is used
            write_video(tmp_path / "case7.mp4", 2)
        options = ("--video", video) if "elsewhere" in location else ()
        data = import_data(name, source, tmp_path / "out", *options)
        (row,) = data.procedures.select("n_frames", "fps", "width", "height").rows()
        assert row == (FRAMES, 25, WIDTH, HEIGHT)
        path = os.path.relpath(video, source)
        assert data.detections["image"].to_list() == [f"{path}#0", f"{path}#3"]
    findings = printed_json("doctor", tmp_path / "out", "--deep")
    assert "error" not in {finding["severity"] for finding in findings}
    write_video(source / "other.mp4", 2)
    video.rename(source / "any.mp4")
    refused = polyplink("import", name, source, tmp_path / "out")
    if name != "mot":
        assert_refused(refused, "any.mp4 or ")
        assert "--video FILE" in refused.stderr


def test_boxes_with_a_separate_recording_are_counted(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` with --recording and --first-frame writes the same data folder as `import`."""
    monkeypatch.chdir(tmp_path)
    video = write_video(tmp_path / "elsewhere.mp4", FRAMES)
    source = write_boxes("csv", tmp_path / "deep" / "boxes", first_frame=1)
    table = (source / "boxes.csv").read_text().splitlines()
    rows = [f"{line},{value}" for line, value in zip(table, ("colour", 1, 2), strict=True)]
    (source / "boxes.csv").write_text("\n".join([*rows, "case7,2,10,10,0,10,3", ""]))
    command = ("run", source, "--boxes", "csv", "--weights", sample_run.weights, "--device", "cpu")
    succeed(*command, "--recording", video, "--first-frame", "1", "--language", "de")
    count, data = Path("run/boxes/count"), read_data(Path("run/boxes/data"))
    assert "<h1>Polypenzählung</h1>" in (count / "report.html").read_text()
    succeed("hand-off", count, "--language", "de")
    warnings = Desk(count).overview()["warnings"]
    for line in (
        "Beim Einlesen der Rahmen: 1 × unbekannte Spalte in boxes.csv, nicht gelesen (colour).",
        "Beim Einlesen der Rahmen: 1 × Rahmen ohne Fläche, ausgelassen (boxes.csv, Zeile 4 "
        "(10, 10, 0, 10)).",
    ):
        assert line in warnings["de"]
        assert line in (count / "report.html").read_text()
        assert line in (count / "reviewed" / "report.html").read_text()
    faults = [
        "1 x unknown column of boxes.csv, not read (colour)",
        "1 x box of no area, left out (boxes.csv, line 4 (10, 10, 0, 10))",
    ]
    lines = [f"While reading the boxes: {fault}." for fault in faults]
    assert list(map(str, read_warnings(Path("run/boxes/data")))) == lines
    assert {*lines} <= {*warnings["en"]}
    assert {*warnings["en"]} <= {*json.loads((count / "count.json").read_text())["warnings"]}
    imported = import_data("csv", source, tmp_path / "out", "--video", video, "--first-frame", "1")
    assert data.detections["frame"].to_list() == imported.detections["frame"].to_list() == [0, 3]
    recount = polyplink("count", sample_run.weights, tmp_path / "out", "--device", "cpu")
    assert all(f"warning: {line}" in recount.stderr for line in lines)
    frames_of_boxes = [
        (tmp_path / "deep" / "boxes" / image).resolve() for image in data.detections["image"]
    ]
    assert frames_of_boxes == [Path(f"{video.resolve()}#{frame}") for frame in (0, 3)]
    assert_refused(polyplink("hand-off", "run"), "did you mean run/boxes/count?")


def test_labels_that_count_from_1_have_a_warning(tmp_path: Path) -> None:
    """The lowest number is 1, or the highest is the number of frames of the video."""
    write_video(tmp_path / "case7.mp4", FRAMES)
    lowest, highest = "frames from 1, the lowest", "frames from 1, the high"
    for name, first, message, correct in (
        ("csv", FRAMES - 3, highest, "1"),
        ("csv", 1, lowest, "1"),
        ("yolo", 1, lowest, "1"),
        ("cvat", 1, lowest, "1"),
        ("coco", 1, lowest, "1"),
        ("mot", 0, "from 0 (--first-frame 0", "0"),
    ):
        folder = write_boxes(name, tmp_path / f"{name} from {first}", first)
        command = ("import", name, folder, tmp_path / f"{name} {first}")
        assert message in polyplink(*command).stderr, name
        assert "labels seem" not in polyplink(*command, "--first-frame", correct).stderr


def test_missing_and_ambiguous_videos_are_refused(tmp_path: Path) -> None:
    source, out = write_boxes("csv", tmp_path / "boxes"), tmp_path / "out"
    command = ("import", "csv", source, out)
    assert_refused(polyplink(*command), "give its recording with --video FILE")
    refused = polyplink("run", source, "--boxes", "csv", "-o", out)
    assert_refused(refused, "give its recording with --recording FILE")
    assert f"`run` lacks: `polyplink import csv {source} DATA`, and then" in refused.stderr
    assert_refused(polyplink(*command, "--video", tmp_path / "no.mp4"), "no file or folder")
    assert_refused(polyplink(*command, "--video", tmp_path), "has no video of procedure case7")
    of_run = polyplink("run", source, "--boxes", "csv", "--recording", "no.mp4", "-o", out)
    assert_refused(of_run, "no file or folder no.mp4; check the path of the video")
    (source / "case7.mp4").write_bytes(b"no video")
    assert_refused(polyplink(*command), "cannot be opened")
    with (source / "boxes.csv").open("a") as file:
        file.write("other,0,1,1,5,5\n")
    video = write_video(tmp_path / "any.mp4", 2)
    assert_refused(polyplink(*command, "--video", video), "the boxes are of several procedures")


def test_sizes_are_read_from_images(tmp_path: Path) -> None:
    write_image(tmp_path / "case7" / "0.png")
    boxes = "procedure_id,frame,x,y,w,h,image\ncase7,0,1,1,9,9,case7/0.png\n"
    (tmp_path / "boxes.csv").write_text(boxes)
    data = import_data("csv", tmp_path / "boxes.csv", tmp_path / "out")
    assert data.procedures.select("width", "height").rows() == [(70, 50)]
    (tmp_path / "case7" / "0.png").write_bytes(b"half")
    refused = polyplink("import", "csv", tmp_path / "boxes.csv", tmp_path / "out")
    assert_refused(refused, "procedure case7: width and height of its frames are unknown")


def test_a_frame_rate_that_is_not_used_is_named(tmp_path: Path) -> None:
    source = tmp_path / "set"
    source.mkdir()
    write_video(source / "case7.mp4", FRAMES)
    (source / "boxes.csv").write_text("procedure_id,frame,x,y,w,h\ncase7,0,1,2,9,9\n")
    warning = "1 x procedure with another frame rate in its video or source, not used (case7)"
    import_data("csv", source, tmp_path / "a")
    assert warning not in map(str, read_warnings(tmp_path / "a"))
    data = import_data("csv", source, tmp_path / "b", "--fps", "50")
    assert data.procedures["fps"].to_list() == [50]
    assert warning in " ".join(map(str, read_warnings(tmp_path / "b")))
    # The values of whole numbers as pandas writes them beside a missing one.
    (source / "procedures.csv").write_text("procedure_id,fps,age,n_frames\ncase7,50,54.0,9.0\n")
    data = import_data("csv", source, tmp_path / "c")
    assert data.procedures.select("fps", "age").row(0) == (50, 54)
    assert warning in " ".join(map(str, read_warnings(tmp_path / "c")))


def test_images_of_a_table_made_on_windows_are_used(tmp_path: Path) -> None:
    source = tmp_path / "set"
    write_image(source / "img" / "1.png")
    table = "procedure_id,frame,x,y,w,h,image\np,0,1,2,9,9,img\\1.png\n"
    (source / "boxes.csv").write_text(table)
    data = import_data("csv", source, tmp_path / "out")
    assert data.detections["image"].to_list() == ["img/1.png"]


def test_an_error_in_a_source_names_the_format_that_was_tried(tmp_path: Path) -> None:
    table = tmp_path / "gt.csv"
    table.write_text("frame,id,left,top\n1,1,2,3\n")
    refused = polyplink("import", "csv", table, tmp_path / "out")
    line = f"polyplink: format csv: {table} has no column 'procedure_id'; write the columns"
    assert_refused(refused, line)
    refused = polyplink("run", table, "--boxes", "csv", "--out", tmp_path / "run")
    assert_refused(refused, line)
    write_boxes("csv", tmp_path)  # without a size
    refused = polyplink("run", tmp_path / "boxes.csv", "--boxes", "csv", "--out", tmp_path / "run")
    assert_refused(refused, "format csv: procedure case7: width and height")
    assert "give its recording with --recording FILE" in refused.stderr


def test_an_archive_that_a_format_does_not_read_is_to_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("annotations/instances_default.json", "{}")
    for name in ("coco", "mot", "yolo", "csv", "masks"):
        assert_refused(polyplink("import", name, path, tmp_path / "out"), "is an archive")


def test_every_component_of_a_mask_is_a_box(tmp_path: Path) -> None:
    source, out = tmp_path / "set", tmp_path / "out"
    write_mask(source / "masks" / "case7" / "0.png", (1, 2, 3, 4), (40, 30, 10, 5))
    write_mask(source / "masks" / "case7" / "1.png")
    touching = ((1, 2, 3, 4), (4, 2, 5, 4), (30, 9, 2, 2))
    write_mask(source / "masks" / "case7" / "2.png", *touching, numbers=True)
    # The boxes touch at a corner.
    write_mask(source / "masks" / "abc.png", (5, 5, 4, 4), (9, 9, 2, 2))
    for name in ("case7/0.jpg", "case7/1.jpg", "case7/2.jpg", "abc.jpg"):
        write_image(source / "pictures" / name)
    assert_refused(polyplink("import", "masks", source, out), "--image-folder")
    data = import_data("masks", source, out, "--image-folder", "pictures")
    assert data.detections.select("procedure_id", "frame", *"xywh", "image").rows() == [
        ("abc", 0, 5, 5, 6, 6, "pictures/abc.jpg"),
        ("case7", 0, 1, 2, 3, 4, "pictures/case7/0.jpg"),
        ("case7", 0, 40, 30, 10, 5, "pictures/case7/0.jpg"),
        *(("case7", 2, *box, "pictures/case7/2.jpg") for box in touching),
    ]
    sizes = data.procedures.select("procedure_id", "n_frames", "width", "height").rows()
    assert sorted(sizes) == [("abc", 1, 70, 50), ("case7", 3, 70, 50)]
    assert data.detections["polyp_id"].null_count() == 6


def test_grey_areas_of_masks_that_are_not_read_are_warned_of(tmp_path: Path) -> None:
    source, out = tmp_path / "set", tmp_path / "out"
    write_mask(source / "images" / "case7" / "0.png")
    (source / "masks" / "case7").mkdir(parents=True)
    sharp = np.zeros((50, 70), np.uint8)
    sharp[5:25, 5:25], sharp[5:25, 30:50] = 85, 255  # a grey for each polyp
    blurred = Image.fromarray((sharp == 255) * np.uint8(255)).filter(ImageFilter.BoxBlur(4))
    for pixels, warnings in ((Image.fromarray(sharp), 1), (blurred, 0)):
        pixels.save(source / "masks" / "case7" / "0.png")
        data = import_data("masks", source, out)
        assert data.detections["w"].len() == 1
        lines = map(str, read_warnings(out))
        assert sum("dark grey area, not read" in line for line in lines) == warnings


def test_inverted_masks_are_refused_and_a_polyp_that_fills_the_image_is_warned_of(
    tmp_path: Path,
) -> None:
    source, masks = tmp_path / "set", tmp_path / "set" / "masks"
    for number in range(3):
        write_image(source / "images" / f"{number}.png")
        write_mask(masks / f"{number}.png", (10, 12, 20, 16))
        with Image.open(masks / f"{number}.png") as mask:
            ImageOps.invert(mask).save(masks / f"{number}.png")
    refused = polyplink("import", "masks", source, tmp_path / "out")
    assert_refused(refused, "3 of 3 masks are bright in most of the image and at its four edges")
    write_mask(masks / "2.png", (0, 0, 70, 40))  # at three edges
    assert_refused(polyplink("import", "masks", source, tmp_path / "out"), "2 of 3 masks")
    background = (0, 0, 70, 50)
    write_mask(masks / "1.png", background, (10, 12, 20, 16), numbers=True)
    assert_refused(polyplink("import", "masks", source, tmp_path / "out"), "2 of 3 masks")
    write_mask(masks / "1.png", (10, 12, 20, 16))
    data = import_data("masks", source, tmp_path / "out")
    sides = data.detections.sort("frame").select(*"xywh").rows()
    assert sides == [background, (10, 12, 20, 16), (0, 0, 70, 40)]
    (warning,) = [w for w in map(str, read_warnings(tmp_path / "out")) if "four edges" in w]
    assert "1 x mask that is bright" in warning
    assert "(0.png)" in warning


def test_masks_have_the_names_of_their_images_with_an_addition(tmp_path: Path) -> None:
    source = tmp_path / "set"
    names = {"1_2": "1_2_Polyp", "001_VP1_frame0021": "001_VP1_frame0021_Corrected"}
    for image, mask in names.items():
        write_mask(source / "masks" / f"{mask}.png", (1, 2, 3, 4))
        write_image(source / "images" / f"{image}.png")
    data = import_data("masks", source, tmp_path / "out")
    assert data.detections.select("procedure_id", "frame", "image").rows() == [
        ("001_VP1", 21, "images/001_VP1_frame0021.png"),
        ("1", 2, "images/1_2.png"),
    ]
    for path in [*(source / "masks").iterdir()]:
        path.rename(path.with_stem(f"{path.stem}_annotation"))
    refused = polyplink("import", "masks", source, tmp_path / "other")
    assert_refused(refused, "no mask has the name of an image")


def test_a_table_of_frames_gives_sequence_and_polyp_of_masks(tmp_path: Path) -> None:
    source, out = tmp_path / "set", tmp_path / "out"
    write_mask(source / "p1.tif", (1, 2, 3, 4), (40, 30, 10, 5))  # in the folder of the images
    write_mask(source / "p12.tif", (5, 5, 4, 4))
    write_mask(source / "3_mask.jpg", (8, 8, 16, 16))
    for name in ("1.tif", "12.tif", "3.jpg"):
        write_image(source / name)
    (source / "frames.csv").write_text("image,procedure_id,polyp_id\n12.tif,s1,a\n1,s1,a\n3,s2,\n")
    folders = ("--image-folder", ".", "--mask-folder", ".")
    data = import_data("masks", source, out, *folders)
    columns = ("procedure_id", "frame", *"xywh", "polyp_id", "image")
    assert data.detections.select(columns).rows() == [
        ("s1", 0, 5, 5, 4, 4, "a", "./12.tif"),
        ("s1", 1, 1, 2, 49, 33, "a", "./1.tif"),
        ("s2", 0, 8, 8, 16, 16, None, "./3.jpg"),
    ]
    (source / "frames.csv").write_text("image,procedure_id,polyp_id\n12,s1,-1\n1,s1,-1\n")
    data = import_data("masks", source, out, *folders, "--first-frame", "1")
    assert data.detections.select("frame", "x", "polyp_id").rows() == [
        (0, 5, None),
        (1, 1, None),
        (1, 40, None),
    ]
    write_mask(source / "sub" / "p7.tif", (6, 6, 8, 8))
    write_image(source / "sub" / "7.tif")
    (source / "frames.csv").write_text("image,procedure_id\nsub\\7.tif,s3\n")  # of Windows
    data = import_data("masks", source, out, *folders)
    assert data.detections["image"].to_list() == ["./sub/7.tif"]
    for table, message in (
        ("name\n1\n", "frames.csv has no column image, procedure_id"),
        ("image,procedure_id,frame\n1,s1,0:02\n", "frame '0:02' is not a whole number"),
        ("image,procedure_id,frame\n1,s1,1e30\n", "frame '1e30' is not a whole number"),
        ("image,procedure_id,polyp_id\n1,s1,a\n1.tif,s1,b\n", "several rows for the image '1'"),
    ):
        (source / "frames.csv").write_text(table)
        assert_refused(polyplink("import", "masks", source, out, *folders), message)


def test_clips_of_a_case_of_sun_seg_are_one_patient(tmp_path: Path) -> None:
    name = "case_M_20180101000000_0U00000000000001_1_005_001-1_a{}_ayy_image{:04d}"
    clips = {  # by part: clip, segment, and first image; clips continue a segment across parts
        "TrainDataset": [("case1_1", 2, 1), ("case1_3", 2, 5), ("case02", 3, 1), ("case02", 4, 1)],
        "Seen": [("case1_2", 2, 3)],
    }
    for part, of_part in clips.items():
        for clip, segment, first in of_part:
            for number in (first, first + 1):
                stem = f"{clip}/{name.format(segment, number)}"
                write_mask(tmp_path / part / "GT" / f"{stem}.png", (1, 2, 3, 4))
                write_image(tmp_path / part / "Frame" / f"{stem}.jpg")
        folders = ("--image-folder", "Frame", "--mask-folder", "GT", "--dataset", "sun-seg")
        data = import_data("masks", tmp_path / part, tmp_path / f"{part}-data", *folders)
        assert data.detections.height == 2 * len(of_part)
    merged = ("merge", tmp_path / "all", tmp_path / "TrainDataset-data", tmp_path / "Seen-data")
    succeed(*merged)
    procedures = read_data(tmp_path / "all").procedures
    segments = [f"case02/{name.format(segment, 1)[:-10]}" for segment in (3, 4)]
    assert dict(procedures.select("procedure_id", "patient").sort("procedure_id").iter_rows()) == {
        **dict.fromkeys(segments, "case2"),
        **{f"case1_{k}": "case1" for k in (1, 2, 3)},
    }
    split = ("split", tmp_path / "all", "--shares", "train=0.5,test=0.5", "--seed", "0")
    succeed(*split)
    assert sorted(map(len, read_data(tmp_path / "all").splits.values())) == [2, 3]


def test_a_source_without_usable_boxes_is_refused_with_the_reason(tmp_path: Path) -> None:
    source = tmp_path / "set"
    write_mask(source / "masks" / "0.png", (1, 2, 3, 4))
    write_mask(source / "images" / "0.png")
    (source / "masks" / "0.png").write_bytes(b"half")
    command = ("import", "masks", source, tmp_path / "out")
    assert_refused(polyplink(*command), "no procedure: 1 x mask that cannot be opened, left out")
    (source / "frames.csv").write_text("image,procedure_id\n7.png,s1\n")
    assert_refused(polyplink(*command), "frames.csv lists none of 1 masks (first: 0.png)")
    (tmp_path / "a.json").write_text('{"images": [], "annotations": []}')
    refused = polyplink("import", "coco", tmp_path / "a.json", tmp_path / "out")
    assert_refused(refused, "no procedure: it is empty")
    (tmp_path / "a.csv").write_text("procedure_id,frame,x,y,w,h\n")
    refused = polyplink("import", "csv", tmp_path / "a.csv", tmp_path / "out")
    assert_refused(
        refused, "a.csv holds no procedure: it is empty; if its recording shows no polyp"
    )
    assert not (tmp_path / "out").exists()


def test_frames_of_several_sizes_are_divided_by_size(tmp_path: Path) -> None:
    source = tmp_path / "set"
    for number, size in enumerate(((70, 50), (70, 50), (50, 50))):
        write_mask(source / "masks" / f"{number}.png", (1, 2, 3, 4))
        write_image(source / "images" / f"{number}.png", size)
    Image.fromarray(np.eye(50, dtype=np.uint8) * 255).save(source / "masks" / "2.png")
    data = import_data("masks", source, tmp_path / "out")
    rows = data.procedures.select("procedure_id", "patient", "width", "height").rows()
    assert sorted(rows) == [("set-50x50", "set", 50, 50), ("set-70x50", "set", 70, 50)]


def test_photographs_and_masks_of_another_size_are_not_taken_as_masks(tmp_path: Path) -> None:
    source, rng = tmp_path / "set", np.random.default_rng(0)
    (source / "images").mkdir(parents=True)
    for number in range(3):
        write_mask(source / "masks" / f"{number}.jpg", (10, 12, 20, 16))
        pixels = rng.integers(0, 255, (50, 70, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(source / "images" / f"{number}.jpg")
    swapped = ("--image-folder", "masks", "--mask-folder", "images")
    refused = polyplink("import", "masks", source, tmp_path / "out", *swapped)
    assert_refused(refused, "no procedure: 3 x photograph in place of a mask, left out")
    with Image.open(source / "masks" / "1.jpg") as mask:
        mask.resize((35, 25)).save(source / "masks" / "1.jpg")
    data = import_data("masks", source, tmp_path / "out")
    (procedure,) = data.procedures.rows(named=True)
    assert (procedure["width"], procedure["height"]) == (70, 50)
    assert data.detections["frame"].to_list() == [0, 2]  # JPEG has shades of grey at edges
    (warning,) = [w for w in map(str, read_warnings(tmp_path / "out")) if "another size" in w]
    assert "1.jpg (35 x 25, image 70 x 50)" in warning


def write_stills(name: str, folder: Path) -> Path:
    """Write an image with a box, two without, and one without annotation, in steps of grey."""
    boxes_by_stem = {"case_0": ((10, 12, 20, 16),), "case_1": (), "other_0": ()}
    for k, stem in enumerate((*boxes_by_stem, "unseen_0")):
        write_image(folder / "images" / f"{stem}.png", grey=60 * k + 30)
    if name == "coco":
        images = [
            {"id": k, "file_name": f"{stem}.png", "width": 70, "height": 50}
            for k, stem in enumerate(boxes_by_stem)
        ]
        content = {
            "images": images,
            "annotations": [{"image_id": 0, "bbox": boxes_by_stem["case_0"][0]}],
        }
        (folder / "annotations").mkdir()
        (folder / "annotations" / "instances.json").write_text(json.dumps(content))
    for stem, boxes in boxes_by_stem.items():
        if name == "masks":
            write_mask(folder / "masks" / f"{stem}.png", *boxes)
        elif name == "yolo":
            (folder / "labels").mkdir(exist_ok=True)
            lines = [f"0 {(x + w / 2) / 70} {(y + h / 2) / 50} {w / 70} {h / 50}\n"
                     for x, y, w, h in boxes]  # fmt: skip
            (folder / "labels" / f"{stem}.txt").write_text("".join(lines))
    return folder


WITHOUT_POLYPS = [("case", 1, "images/case_1.png"), ("other", 0, "images/other_0.png")]


@pytest.mark.parametrize("name", ["coco", "yolo", "masks"])
def test_images_annotated_as_free_of_polyps_are_stored(name: str, tmp_path: Path) -> None:
    source, out = write_stills(name, tmp_path / "stills"), tmp_path / "out"
    data = import_data(name, source, out)
    assert read_empty(out, data.part(None)).rows() == WITHOUT_POLYPS
    files = [source / image for *_, image in WITHOUT_POLYPS]
    assert empty_files(out, data, data.part(None)) == files


def test_images_without_polyps_are_used_for_training_and_merged(tmp_path: Path) -> None:
    source, out = write_stills("masks", tmp_path / "stills"), tmp_path / "out"
    data = import_data("masks", source, out)
    procedures = data.part(None)
    frames = read_frames(out, data, procedures, 64, 4, workers=1)
    assert frames.procedures == ("case", "case", "other")
    assert [int(grey) for grey in frames.pixels[:, 32, 32, 0]] == [30, 90, 150]
    boxes = frames.boxes[:, 0] * [70, 50, 70, 50]
    np.testing.assert_allclose(boxes[0], [10, 12, 30, 28], atol=1e-3)
    assert np.isnan(boxes[1:]).all()
    assert [still.path.name for still in read_stills(out, data, procedures)] == ["case_0.png"]
    merged = merge_data(tmp_path / "all", [out]).value
    files = [source / image for *_, image in WITHOUT_POLYPS]
    assert empty_files(tmp_path / "all", merged, procedures) == files
    # A detector's missing box is no annotation, and a removed image is not listed.
    import_data("masks", source, out, "--detector", "mine")
    assert read_empty(out, procedures).is_empty()
    files[0].unlink()
    import_data("masks", source, out)
    assert read_empty(out, procedures).rows() == WITHOUT_POLYPS[1:]


@pytest.mark.parametrize(
    ("frames", "numbers", "greys"),
    [
        ((0, 1, 2, 5), (0, 1, 2, 5), [0, 10, 20, 50, 30, 40]),  # the gap shows no polyp
        ((0, 1, 2, 5), (0, 1, 2, 3), [0, 10, 20, 30]),  # the image 3 is of frame 5
        ((0, 2, 4, 6), (0, 2, 4, 6), [0, 20, 40, 60]),  # every second frame was annotated
    ],
)
def test_only_frames_that_surely_have_no_polyp_are_used_without_an_annotation(
    tmp_path: Path, frames: tuple[int, ...], numbers: tuple[int, ...], greys: list[int]
) -> None:
    source, out = tmp_path / "set", tmp_path / "out"
    for k in range(8):
        write_image(source / f"v_{k}.png", grey=10 * k)
    rows = [f"v,{n},9,9,20,16,v_{k}.png\n" for n, k in zip(frames, numbers, strict=True)]
    (source / "boxes.csv").write_text("procedure_id,frame,x,y,w,h,image\n" + "".join(rows))
    data = import_data("csv", source, out)
    read = read_frames(out, data, ["v"], 64, 4, workers=1)
    assert [int(grey) for grey in read.pixels[:, 32, 32, 0]] == greys


def test_polyps_of_another_procedure_in_the_same_folder_are_not_negatives(tmp_path: Path) -> None:
    source, out = tmp_path / "set", tmp_path / "out"
    for k in range(8):
        write_image(source / f"v_{k}.png", grey=10 * k)
    rows = [f"{'a' if k < 4 else 'b'},{k},9,9,20,16,v_{k}.png\n" for k in (0, 1, 2, 4, 5, 6, 7)]
    (source / "boxes.csv").write_text("procedure_id,frame,x,y,w,h,image\n" + "".join(rows))
    data = import_data("csv", source, out)
    read = read_frames(out, data, ["b"], 64, 20, workers=1)
    greys = [int(grey) for grey in read.pixels[:, 32, 32, 0]]
    assert greys == [40, 50, 60, 70, 30]  # the file 3 alone has no box in any procedure


def test_a_frame_that_does_not_decode_is_not_learned_as_a_black_polyp(tmp_path: Path) -> None:
    source, out = tmp_path / "set", tmp_path / "out"
    for k in range(4):
        write_image(source / f"v_{k}.png", grey=50 + 10 * k)
    (source / "v_2.png").write_bytes((source / "v_2.png").read_bytes()[:60])
    rows = [f"v,{k},{10 * k},9,20,16,v_{k}.png\n" for k in range(4)]
    (source / "boxes.csv").write_text("procedure_id,frame,x,y,w,h,image\n" + "".join(rows))
    read = read_frames(out, import_data("csv", source, out), ["v"], 64, 4, workers=1)
    assert [int(grey) for grey in read.pixels[:, 32, 32, 0]] == [50, 60, 80]
    assert [int(box[0, 0]) for box in true_boxes(read)] == [0, 9, 27]
    (warning,) = broken_warnings(read)
    assert "1 frame left out" in warning
    assert f"{source / 'v_2.png'} (" in warning
