from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.coco_files import coco_files, image_prefix


def test_files_of_a_folder_and_their_parts(tmp_path: Path) -> None:
    folder = tmp_path / "annotations"
    folder.mkdir()
    for name in ("instances_train.json", "instances.json", "captions_train.json", "._x.json"):
        (folder / name).touch()
    found = [(file.path.name, file.root, file.part) for file in coco_files(tmp_path)]
    assert found == [
        ("instances.json", tmp_path, None),
        ("instances_train.json", tmp_path, "train"),
    ]
    one = coco_files(folder / "instances_train.json")
    assert [(file.root, file.part) for file in one] == [(tmp_path, "train")]
    with pytest.raises(PolyplinkError, match="no file or folder"):
        coco_files(tmp_path / "nowhere")


def test_files_of_other_names(tmp_path: Path) -> None:
    for name in ("val.json", "mine.json", "run.json"):
        (tmp_path / name).touch()
    assert [(f.path.name, f.part) for f in coco_files(tmp_path)] == [
        ("mine.json", None),
        ("val.json", "val"),
    ]


def test_where_images_are(tmp_path: Path) -> None:
    (tmp_path / "val.json").touch()
    file = coco_files(tmp_path / "val.json")[0]
    assert image_prefix(file, "a.jpg") == ""
    (tmp_path / "images").mkdir()
    assert image_prefix(file, "a.jpg") == "images/"
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "a.jpg").touch()
    assert image_prefix(file, "a.jpg") == "val/"
    (tmp_path / "images" / "a.jpg").touch()
    assert image_prefix(file, "a.jpg") == "images/"
