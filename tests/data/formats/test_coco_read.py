import json
from pathlib import Path
from typing import Any

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.coco_files import coco_files
from polyplink.data.formats.coco_read import CocoRead, read_coco


def read(tmp_path: Path, **content: Any) -> CocoRead:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"images": [], "annotations": []} | content))
    return read_coco(coco_files(path)[0], strict=False)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    empty = read(tmp_path)
    assert (empty.images.height, empty.boxes.height, empty.videos.height) == (0, 0, 0)
    assert (empty.categories, empty.part) == ([], None)


def test_the_video_is_before_the_sequence_and_the_identity(tmp_path: Path) -> None:
    content = read(
        tmp_path,
        videos=[{"id": 4, "name": "by video"}],
        images=[
            {"id": 1, "file_name": "x_1.jpg", "video_id": 4, "sequence_id": "s"},
            {"id": 2, "file_name": "x_2.jpg", "sequence_id": "s", "frame_id": 9},
            {"id": 3, "file_name": "x_3.jpg"},
            {"id": 4, "file_name": "x_4.jpg"},
        ],
        annotations=[
            {"id": 1, "image_id": 3, "bbox": [1, 2, 3, 4], "identity_id": "d3_004-005_1"},
            {"id": 2, "image_id": 4, "bbox": [1, 2, 3, 4]},
        ],
    )
    assert content.images.select("procedure_id", "frame").rows() == [
        ("by video", 1),
        ("s", 9),
        ("d3_004-005", 3),
        ("x", 4),
    ]


def test_numbers_are_tracks_and_words_are_names(tmp_path: Path) -> None:
    ids: list[dict[str, Any]] = [
        {"track_id": 0},
        {"instance_id": "7"},
        {"track_id": "left"},
        {"track_id": -1},
        {"identity_id": 5},
        {"polyp_id": "p", "track_id": 1},
        {},
    ]
    content = read(
        tmp_path,
        images=[{"id": 1, "file_name": "x_1.jpg"}],
        annotations=[{"id": i, "image_id": 1, "bbox": [1, 2, 3, 4]} | e for i, e in enumerate(ids)],
    )
    assert content.boxes.select("polyp_id", "track").rows() == [
        (None, "0"),
        (None, "7"),
        ("left", None),
        (None, None),
        ("5", None),
        ("p", "1"),
        (None, None),
    ]


def test_results_alone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]')
    with pytest.raises(PolyplinkError, match="results alone name no images"):
        read_coco(coco_files(path)[0], strict=False)
