import zipfile
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.trees import open_tree
from polyplink.data.sets.ldpolyp_videos import negative_videos
from polyplink.data.sets.origin import read_origin
from tests.data.films import HEIGHT, WIDTH, write_film


def test_only_videos_without_polyps_are_procedures(tmp_path: Path) -> None:
    folder = tmp_path / "LDPolypVideo" / "Videos without polyps"
    folder.mkdir(parents=True)
    for name in ("10.avi", "2.avi"):
        write_film(folder / name, 3, codec="mpeg4")
    (folder / "3.avi").write_bytes(b"no video")
    (folder / "sub").mkdir()
    (folder / "sub" / "2.AVI").touch()
    (tmp_path / "videos with polyps").mkdir()
    (tmp_path / "videos with polyps" / "1.avi").touch()
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("videos without polyps/4.avi", b"")
    faults = Faults()
    tree = open_tree(tmp_path, faults)
    rows = negative_videos(tree, read_origin(tree, "ldpolyp"), faults)
    assert [(row.procedure_id, row.n_frames, row.width, row.height) for row in rows] == [
        ("negative_2", 3, WIDTH, HEIGHT),
        ("negative_10", 3, WIDTH, HEIGHT),
    ]
    assert sorted(line.split(" (first")[0] for line in faults.lines()) == [
        "1 x second video of a name, left out",
        "1 x video inside an archive, left out",
        "1 x video that cannot be read, left out",
        "1 x video with a label for the whole of it and no boxes, left out",
    ]
    with pytest.raises(PolyplinkError, match=r"3\.avi"):
        negative_videos(tree, read_origin(tree, "ldpolyp"), Faults(strict=True))
