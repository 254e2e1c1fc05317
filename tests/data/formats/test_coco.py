import gc
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.coco import import_coco, load_json, read_records, write_coco
from polyplink.data.tables import DataSet
from tests.data.formats.coco_files import box, image, write
from tests.data.sample_sets import scored_set

values = (
    st.none()
    | st.integers()
    | st.integers(-99, 99).map(lambda k: k / 2)
    | st.text("a1.", max_size=3)
)


def test_the_json_files_of_the_paper_are_imported_with_their_parts(tmp_path: Path) -> None:
    """Without sequence_id, the procedure is the identity, without a suffix `_k`."""
    annotations = tmp_path / "annotations"
    name = "case_M_20181001_0U62_1_005_001-1_a10_ayy_image0001.jpg"
    facts = {"histology": "AD", "size": 3, "morphology": "Is", "location": "Caecum"}
    write(
        annotations / "instances_train.json",
        [
            image(1, "dataset3_004-005_7.jpg", frame_id=7, dataset_id="dataset3"),
            image(2, "dataset3_004-005_8.jpg", frame_id=8, dataset_id="dataset3"),
            image(3, "dataset3_004-005_9.jpg", frame_id=9, dataset_id="dataset3"),
        ],
        [
            box(1, 1, identity_id="dataset3_004-005_1", **facts),
            box(2, 2, identity_id="dataset3_004-005_2"),
        ],
    )
    write(
        annotations / "instances_val.json",
        [image(1, name, frame_id=0, dataset_id="dataset1")],
        [box(1, 1, identity_id="dataset1_case10", histology="Low-grade adenoma")],
    )
    imported = import_coco(tmp_path, datasets={"dataset3": "real-colon"})
    data = imported.data
    assert data.splits == {"train": ["dataset3_004-005"], "val": ["dataset1_case10"]}
    assert data.procedures.select("procedure_id", "dataset", "n_frames").rows() == [
        ("dataset3_004-005", "real-colon", 10),  # the last has no box
        ("dataset1_case10", "dataset1", 1),
    ]
    assert data.detections.select("procedure_id", "frame", "polyp_id").rows() == [
        ("dataset1_case10", 0, "dataset1_case10"),
        ("dataset3_004-005", 7, "dataset3_004-005_1"),
        ("dataset3_004-005", 8, "dataset3_004-005_2"),
    ]
    first = data.polyps.filter(polyp_id="dataset3_004-005_1").row(0, named=True)
    assert (first["size_mm"], first["histology_class"], first["location"]) == (3, "AD", "cecum")
    assert first["morphology"] == "Is"
    assert any("set to its last frame + 1" in line for line in imported.lines)


def test_names_of_data_sets_without_effect_are_not_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", [image(1, "a_1.jpg", dataset_id=3)], [box(1, 1)])
    with pytest.raises(PolyplinkError, match=r"no image has the dataset_id 'dataset3'.*: 3"):
        import_coco(path, datasets={"dataset3": "real-colon"})
    imported = import_coco(path, dataset="mine")
    assert imported.data.procedures["dataset"].to_list() == ["3"]
    assert any(line.startswith("1 x procedure of another data set") for line in imported.lines)
    assert not any("another data set" in line for line in import_coco(path).lines)


def test_images_without_an_identity_belong_to_the_procedure_of_similar_names(
    tmp_path: Path,
) -> None:
    images = [image(k, f"a/{k}.jpg") for k in (1, 2, 3)] + [image(4, "b/1.jpg", sequence_id="s")]
    boxes = [box(1, 1, identity_id="001-002_1"), box(2, 2), box(4, 4)]
    for identity, polyp in (("track", "001-002_1"), ("none", None)):
        path = write(tmp_path / "a.json", images, boxes)
        imported = import_coco(path, identity=identity)
        rows = imported.data.detections.select("procedure_id", "frame", "polyp_id").rows()
        assert rows == [("001-002", 1, polyp), ("001-002", 2, None), ("s", 1, None)]
        frames = imported.data.procedures.select("procedure_id", "n_frames").rows()
        assert dict(frames) == {"001-002": 4, "s": 2}
        assert not [line for line in imported.lines if "image without" in line]
    # With two procedures for a name, the import warns about its choice.
    write(path, [*images, image(5, "a/5.jpg")], [*boxes, box(5, 5, identity_id="001-003_1")])
    imported = import_coco(path)
    rows = imported.data.detections.select("procedure_id", "frame").rows()
    assert rows == [("001-002", 1), ("001-003", 5), ("a", 2), ("s", 1)]
    for kind in ("and identity_id, placed by its name (a.json, image 2", "1 x image without box"):
        assert [line for line in imported.lines if kind in line]


def test_the_procedure_is_the_video_then_the_sequence_then_the_identity(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.json",
        [
            image(1, "x_1.jpg", video_id=4, sequence_id="s"),
            image(2, "x_2.jpg", sequence_id="s", frame_id=9),
            image(3, "x_3.jpg"),
            image(4, "x_4.jpg"),
            image(5, "images\\x_5.jpg"),
            image(6, "images/x_6.jpg"),
        ],
        [box(i, i) for i in (1, 2)]
        + [box(3, 3, identity_id="d3_004-005_1")]
        + [box(4, 4, polyp_id="p", attributes={"size": 4})]
        + [box(5, 5, attributes={"track_id": 7, "size": 3})]
        + [box(6, 6, track_id="t", attributes={"track_id": 7, "occluded": False})],
        videos=[{"id": 4, "name": "by video"}],
    )
    data = import_coco(path).data
    rows = data.detections.select("procedure_id", "frame", "polyp_id").rows()
    of_name = [("x", 4, "p"), ("x", 5, "x_7"), ("x", 6, "t")]
    others = [("by video", 1, None), ("d3_004-005", 3, "d3_004-005_1"), ("s", 9, None)]
    assert rows == [*others, *of_name]
    sizes = dict(data.polyps.drop_nulls("size_mm").select("polyp_id", "size_mm").iter_rows())
    assert sizes == {"p": 4, "x_7": 3}


def test_annotation_files_and_images_of_a_folder_are_read(tmp_path: Path) -> None:
    root = tmp_path / "annotations"
    content = [image(1, "v_3.jpg")], [box(1, 1)]
    write(root / "instances_train.json", *content)
    (root / "captions_train.json").write_text("no COCO")
    (root / "._x.json").write_text("no COCO")
    for folder in ("train", "images/train", "images"):  # later folders have priority
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "v_3.jpg").touch()
        for source in (tmp_path, root / "instances_train.json"):
            data = import_coco(source).data
            assert data.detections["image"].to_list() == [f"{folder}/v_3.jpg"]
            assert data.splits == {"train": ["v"]}


def test_videos_with_tracks_and_ids_of_any_type_are_imported(tmp_path: Path) -> None:
    """Ids as text and as numbers, negative ids, unsorted categories, videos with names."""
    videos = [
        {"id": "1", "name": "b", "fps": 25, "length": 9, "width": 64, "height": 48},
        {"id": 0, "name": "a", "n_frames": 5, "fps": 0, "width": 0, "height": -1},  # not known
        {
            "id": 2,
            "length": 1,
            "width": 9,
            "height": 9,
            "name": "",
            "patient": "",
            "source": "camera",
        },
    ]
    images = [
        image(-3, "x.jpg", video_id=1, frame_index=8),
        image(-4, "y.jpg", video_id=0, frame_number=0),
        image(-5, "z.jpg", video_id=0, frame=1),
    ]
    boxes = [
        box(-1, "-3", track_id=1),
        box(-2, -4, track_id="1", score=0.5),
        box(-9, -5.0, track_id="left", bbox=["1", 2, 3.5, 4]),
        box(-8, -5, track_id=-1),
    ]
    path = write(tmp_path / "all.json", images, boxes, videos=videos)
    data = import_coco(path).data
    assert data.detections.select("procedure_id", "frame", "polyp_id").rows() == [
        ("a", 0, "a_1"),
        ("a", 1, "left"),
        ("a", 1, None),
        ("b", 8, "b_1"),
    ]
    procedures = data.procedures.select("procedure_id", "n_frames", "fps").rows()
    assert procedures == [("b", 9, 25.0), ("a", 5, None), ("2", 1, None)]
    assert data.procedures.select("patient", "source").row(-1) == ("2", str(tmp_path.resolve()))
    bare = import_coco(path, identity="none").data
    assert bare.polyps.is_empty()
    assert bare.detections["polyp_id"].null_count() == 4


def test_a_video_without_images_is_in_the_part_of_the_only_file_that_lists_it(
    tmp_path: Path,
) -> None:
    videos = [{"id": k, "name": name, "length": 9} for k, name in enumerate("abcde")]
    for part, images, listed in (("train", [0, 1], "abce"), ("val", [2], "acde")):
        write(
            tmp_path / f"instances_{part}.json",
            [image(k, f"{k}.jpg", video_id=k, frame_id=3) for k in images],
            [box(k, k) for k in images],
            videos=[video for video in videos if str(video["name"]) in listed],
        )
    data = import_coco(tmp_path, size=(64, 48)).data
    assert data.procedures["procedure_id"].to_list() == ["a", "b", "c", "e", "d"]
    assert data.splits == {"train": ["a", "b"], "val": ["c", "d"]}


def test_images_that_repeat_another_or_have_no_id_or_frame_are_refused_if_strict(
    tmp_path: Path,
) -> None:
    first = image(1, "v_0.jpg")
    for further, kind in (
        (image(1, "v_1.jpg"), "further image of the same id"),
        (image(2, "v_00.jpg"), "further image of the same frame"),
        ({"file_name": "v_1.jpg"}, "image without an id"),
        ({"id": 2, "width": 64, "height": 48}, "box without a procedure"),
    ):
        path = write(tmp_path / "a.json", [first, further], [box(1, 1), box(2, 2)])
        assert any(f"1 x {kind}, left out" in line for line in import_coco(path).lines)
        with pytest.raises(PolyplinkError, match=kind):
            import_coco(path, strict=True)


def test_an_image_without_a_number_in_its_name_is_a_procedure_of_one_frame(tmp_path: Path) -> None:
    names = ("cju0qk.jpg", "left/cju0.png", "/elsewhere/cju1.jpg", "v_3.jpg")
    images = [image(k, name) for k, name in enumerate(names)]
    imported = import_coco(write(tmp_path / "a.json", images, [box(k, k) for k in range(4)]))
    rows = imported.data.detections.select("procedure_id", "frame").rows()
    assert sorted(rows) == [("cju0qk", 0), ("cju1", 0), ("left/cju0", 0), ("v", 3)]
    kind = "3 x image that is the only frame of its procedure"
    assert any(kind in line for line in imported.lines)
    counted_from_one = import_coco(tmp_path / "a.json", first_frame=1).data.detections
    assert sorted(counted_from_one["frame"]) == [0, 0, 0, 2]


def test_images_of_several_sizes_are_divided_unless_a_polyp_or_a_video_is_named(
    tmp_path: Path,
) -> None:
    images = [image(1, "v_1.jpg"), image(2, "v_2.jpg", width=32), image(3, "v_3.jpg")]
    path = write(tmp_path / "a.json", images, [box(k, k) for k in (1, 2, 3)])
    procedures = import_coco(path).data.procedures
    rows = procedures.select("procedure_id", "patient", "width", "n_frames").rows()
    assert sorted(rows) == [("v-32x48", "v", 32, 3), ("v-64x48", "v", 64, 4)]
    of_video = [row | {"sequence_id": "case"} for row in images]
    for name, listed, fields in (("v", images, {"polyp_id": "p"}), ("case", of_video, {})):
        path = write(tmp_path / "a.json", listed, [box(k, k, **fields) for k in (1, 2, 3)])
        assert import_coco(path).data.procedures["procedure_id"].to_list() == [name]


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", [image(1, "v_0.jpg")], [box(1, 1)])
    path.write_text('[{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]')
    with pytest.raises(PolyplinkError, match="has no lists `images` and `annotations`"):
        import_coco(path)
    path.write_text('{"images": [1], "annotations": []}')
    with pytest.raises(PolyplinkError, match="images is not a list of records"):
        import_coco(path)


def test_one_procedure_name_in_two_data_sets_is_refused(tmp_path: Path) -> None:
    images = [image(1, "v_0.jpg", dataset_id="a"), image(2, "v_1.jpg", dataset_id="b")]
    path = write(tmp_path / "a.json", images, [box(1, 1)])
    with pytest.raises(PolyplinkError, match=r"procedure v is in two data sets \(dataset_id\)"):
        import_coco(path)


def test_results_of_a_detector_replace_the_boxes(tmp_path: Path) -> None:
    path = write(tmp_path / "gt.json", [image(1, "v_0.jpg"), image(2, "v_1.jpg")], [box(1, 1)])
    results = tmp_path / "results.json"
    row = {"image_id": 2, "category_id": 1, "bbox": [1, 2, 3.5, 4], "score": 0.75}
    results.write_text(json.dumps([row, row | {"image_id": 9}]))
    imported = import_coco(path, boxes=results)
    rows = imported.data.detections.select("frame", "w", "score", "polyp_id").rows()
    assert rows == [(1, 3.5, 0.75, None)]
    warning = "1 x box of an image that is not listed, left out (results.json, entry 2)"
    assert warning in imported.lines
    assert import_coco(tmp_path, boxes=results).data.detections.equals(imported.data.detections)
    results.write_text(json.dumps([row | {"image_id": 9}]))
    with pytest.raises(PolyplinkError, match=r"no usable box among 1: .* not listed, .*; add the"):
        import_coco(path, boxes=results)
    results.write_text('{"image_id": 2}')
    with pytest.raises(
        PolyplinkError, match=r"results\.json: annotations is not a list of records"
    ):
        import_coco(path, boxes=results)
    (tmp_path / "others.json").write_text(path.read_text())
    with pytest.raises(
        PolyplinkError, match="has 2 annotation files, but results refer to the images"
    ):
        import_coco(tmp_path, boxes=results)


def test_other_json_files_of_a_folder_are_left_out_by_name(tmp_path: Path) -> None:
    write_coco(scored_set(), tmp_path / "set")
    content = (tmp_path / "set" / "annotations" / "instances.json").read_text()
    (tmp_path / "boxes.json").write_text(content)
    only_boxes = import_coco(tmp_path, images=False).data.detections
    (tmp_path / "detector.json").write_text('{"layout": "yolov8"}')
    (tmp_path / "results.json").write_text("[]")
    imported = import_coco(tmp_path, images=False)
    assert imported.data.detections.equals(only_boxes)
    assert any("2 x JSON file without the lists" in line for line in imported.lines)
    assert "detector.json" in " ".join(imported.lines)
    (tmp_path / "boxes.json").unlink()
    with pytest.raises(PolyplinkError, match=r"none of the 2 JSON files .*; give the file"):
        import_coco(tmp_path)


def test_written_files_have_the_keys_of_the_paper(tmp_path: Path) -> None:
    write_coco(scored_set(), tmp_path)
    content = json.loads((tmp_path / "annotations" / "instances.json").read_text())
    assert [image["file_name"] for image in content["images"]] == [
        "001-001_0.jpg",
        "001-001_1.jpg",
        "001-009_2.jpg",
    ]
    assert content["images"][2]["sequence_id"] == "001-009"
    assert content["images"][2]["frame_id"] == 2
    first, *_, last = content["annotations"]
    assert first["bbox"] == [10.5, 8.0, 20.0, 16.0]
    assert (first["identity_id"], first["size"], first["score"]) == ("001-001_1", 3.0, 0.5)
    assert "identity_id" not in last
    assert len({a["id"] for a in content["annotations"]}) == 4
    assert "source" not in content["videos"][0]


def test_each_part_is_one_file_and_a_procedure_in_two_parts_is_refused(tmp_path: Path) -> None:
    scored = scored_set()
    tables = (scored.detections, scored.procedures, scored.polyps)
    write_coco(DataSet.of(*tables, {"test": ["001-009"], "none": []}), tmp_path)
    names = sorted(path.name for path in (tmp_path / "annotations").iterdir())
    assert names == ["instances.json", "instances_test.json"]
    with pytest.raises(PolyplinkError, match="procedure '001-009' is in two parts"):
        write_coco(DataSet.of(*tables, {"a": ["001-009"], "b": ["001-009"]}), tmp_path)


def test_invalid_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1, NaN]}')
    assert load_json(path)["a"][0] == 1
    for content, message in (
        (b'{"a": [1', "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        ('{"é": 1}'.encode("latin-1"), "is not valid JSON"),
    ):
        path.write_bytes(content)
        with pytest.raises(PolyplinkError, match=message):
            load_json(path)
    path.unlink()
    with pytest.raises(PolyplinkError, match="is missing; check the path"):
        load_json(path)
    assert gc.isenabled()


def test_the_first_present_key_of_a_column_is_read() -> None:
    rows = [{"track_id": 1, "size": 2}, {"instance_id": "x", "track_id": None}, {"size_mm": 3}]
    table = read_records(rows, "rows", ["track", "size_mm", "polyp_id"])
    assert table.rows() == [("1", 2, None), ("x", None, None), (None, 3, None)]
    assert read_records(None, "rows", ["id"]).is_empty()
    for invalid in ([{}, [1]], "text"):
        with pytest.raises(PolyplinkError, match="rows is not a list of records"):
            read_records(invalid, "rows", ["id"])


@given(st.lists(values))
@example([-(2**127) - 1])
@example([-(2**127) - 1, ""])
def test_texts_and_numbers_equal_a_naive_conversion(column: list[object]) -> None:
    def text(value: object) -> str | None:
        is_whole = isinstance(value, float) and value.is_integer()
        return None if value is None else str(int(value) if is_whole else value)  # type: ignore[call-overload]

    def number(value: object) -> float | None:
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None

    rows = [{"id": value, "score": value} for value in column]
    table = read_records(rows, "rows", ["id", "score"])
    assert table["id"].to_list() == [text(value) for value in column]
    assert table["score"].to_list() == [number(value) for value in column]


@pytest.mark.parametrize("unknown", [-1, "", "nan"])
def test_an_unknown_identity_names_neither_a_polyp_nor_a_procedure(
    tmp_path: Path, unknown: Any
) -> None:
    images = [image(1, "case7_1.jpg"), image(2, "case8_1.jpg")]
    path = write(tmp_path / "a.json", images, [box(i, i, identity_id=unknown) for i in (1, 2)])
    imported = import_coco(path)
    rows = imported.data.detections.select("procedure_id", "frame", "polyp_id").rows()
    assert rows == [("case7", 1, None), ("case8", 1, None)]
    assert imported.data.polyps.is_empty()
    assert [line for line in imported.lines if line.startswith("2 x polyp id that is blank")]


def test_two_videos_of_one_name_are_not_joined(tmp_path: Path) -> None:
    images = [image(k, f"{k}.jpg", video_id=k, frame_id=k) for k in (1, 2)]
    videos = [{"id": 1, "name": "clip"}, {"id": 2, "name": "clip"}]
    path = write(tmp_path / "a.json", images, [box(1, 1), box(2, 2)], videos=videos)
    with pytest.raises(PolyplinkError, match="two videos are called 'clip'; give every video"):
        import_coco(path)
