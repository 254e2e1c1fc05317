from pathlib import Path

from polyplink.data.faults import Faults
from polyplink.data.files.trees import open_tree
from polyplink.data.sets.polypsset_files import find_videos


def test_files_are_sorted_and_those_out_of_place_counted(tmp_path: Path) -> None:
    names = [
        "PolypsSet/train2019/Image/1.jpg",
        "PolypsSet/train2019/Annotation/1.xml",
        "PolypsSet/val2019/Image/10/3.JPG",
        "PolypsSet/val2019/Annotation/10/3.xml",
        "PolypsSet/val2019/Image/2/007.png",
        "PolypsSet/test2019/Annotation/2/1.xml",
        "PolypsSet/readme.md",
        "PolypsSet/train2019/Image/5/1.jpg",
        "PolypsSet/val2019/Image/1.jpg",
        "PolypsSet/val2019/Image/2/7.jpg",
        "PolypsSet/val2019/Image/2/last.jpg",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    faults = Faults()
    videos = find_videos(open_tree(tmp_path, faults), faults)
    assert [(v.name, list(v.images), list(v.xmls)) for v in videos] == [
        ("train", [1], [1]),
        ("val_2", [7], []),
        ("val_10", [3], [3]),
        ("test_2", [], [1]),
    ]
    assert [line.split(", left out")[0] for line in faults.lines()] == [
        "1 x file of train in a folder",
        "1 x file of val outside of a video's folder",
        "1 x second file of a frame",
        "1 x file whose name is no number",
    ]
