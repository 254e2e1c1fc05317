from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.yolo_files import label_files, yaml_size


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_labels_with_their_images(tmp_path: Path) -> None:
    touch(tmp_path, "labels/train/v_0.txt", "labels/train/v_1.TXT", "labels/classes.txt")
    touch(tmp_path, "images/train/v_0.jpeg", "labels/.v_2.txt", "valid/labels/w/3.txt")
    found = [(file.name, file.image) for file in label_files(tmp_path)]
    assert found == [
        ("train/v_0.txt", "images/train/v_0.jpeg"),
        ("train/v_1.TXT", None),
        ("valid/w/3.txt", None),
    ]


def test_a_folder_of_labels_itself(tmp_path: Path) -> None:
    touch(tmp_path, "labels/v_0.txt", "images/v_0.png")
    (file,) = label_files(tmp_path / "labels")
    assert (file.name, file.image) == ("v_0.txt", "../images/v_0.png")
    touch(tmp_path, "flat/v_0.txt", "flat/v_0.png")
    (file,) = label_files(tmp_path / "flat")
    assert (file.name, file.image) == ("v_0.txt", "v_0.png")


def test_size_of_data_yaml(tmp_path: Path) -> None:
    assert yaml_size(tmp_path) is None
    path = tmp_path / "data.yaml"
    path.write_text("path: .\nnames:\n  0: polyp\nwidth: 64 # pixels\n  height: 7\n")
    assert yaml_size(tmp_path) is None
    path.write_text("height: 48\r\nwidth: 64\r\n")
    assert yaml_size(tmp_path) == (64, 48)
    path.write_text("height: 48\nwidth: 0\n")
    with pytest.raises(PolyplinkError, match="width is '0'; write a whole number of pixels"):
        yaml_size(tmp_path)
