from pathlib import Path

from PIL import Image

from polyplink.data.formats.yolo_files import label_files
from polyplink.data.formats.yolo_read import read_labels


def test_lines_by_file_and_sizes_by_image(tmp_path: Path) -> None:
    (tmp_path / "v_0.txt").write_text("0 .1 .2 .3 .4\n\n1 .1 .2 .3 .4 .5 6\n")
    (tmp_path / "v_1.txt").write_text("")
    (tmp_path / "v_2.txt").write_text("0 .1 .2 .3 .4 7\n")
    Image.new("L", (64, 48)).save(tmp_path / "v_2.png")
    files = label_files(tmp_path)
    read = read_labels((10, files), tmp_path, open_images=True, strict=False)
    rows = read.boxes.select("at", "file", "class", "cx", "sixth", "seventh").rows()
    assert rows == [
        ("v_0.txt, line 1", 10, 0, 0.1, None, None),
        ("v_0.txt, line 3", 10, 1, 0.1, 0.5, 6),
        ("v_2.txt, line 1", 12, 0, 0.1, 7, None),
    ]
    assert read.sizes.rows() == [(12, 64, 48)]
    assert read_labels((0, files), tmp_path, open_images=False, strict=False).sizes.is_empty()
