import io
import tarfile
import zipfile
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from polyplink.data import DataSet
from polyplink.data.checks.check_pixels import check_pixels, image_size
from polyplink.data.checks.findings import Finding
from tests.data.films import write_film
from tests.data.made_sets import data_set, procedure_row

WIDTH, HEIGHT = 64, 48


def png(width: int = WIDTH) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, HEIGHT), (9, 99, 200)).save(buffer, "png")
    return buffer.getvalue()


def named(root: str, images: list[str]) -> DataSet:
    data = data_set(
        [("a", k, 1, 1, 20, 20, None) for k in range(len(images))],
        [],
        [procedure_row("a", len(images), source=root)],
    )
    table = data.detections.with_columns(image=pl.Series(images))
    return DataSet.of(table, data.procedures, data.polyps)


def told(findings: list[Finding]) -> list[tuple[str, int]]:
    return [(f.check, f.count) for f in findings]


CONTENTS = {"0.png": png(), "1.png": b"half", "2.png": png(32), "3.png": png()}
EXPECTED = [("unreadable image", 1), ("image of another size", 1)]


def test_files_a_sample_and_all(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name, content in CONTENTS.items():
        (tmp_path / "images" / name).write_bytes(content)
    data = named("images", [*CONTENTS, "not there.png"])
    ticks: list[tuple[int, int]] = []
    for deep in (False, True):
        findings = check_pixels(
            data, tmp_path, deep=deep, progress=lambda *step: ticks.append(step)
        )
        assert told(findings) == EXPECTED
        assert "frame 1: 1.png does not decode" in findings[0].what
        assert "2.png is 32 x 48, the procedure 64 x 48" in findings[1].what
    assert ticks[-1] == (4, 5)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_are_opened_only_deep(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"p.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, content in CONTENTS.items():
                zipped.writestr(f"p/{name}", content)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in CONTENTS.items():
                info = tarfile.TarInfo(f"p/{name}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    data = named(str(tmp_path), [*(f"p.{kind}!/{name}" for name in CONTENTS), f"p.{kind}!/x.png"])
    assert check_pixels(data, Path(), deep=False) == []
    assert told(check_pixels(data, Path(), deep=True)) == [("unreadable image", 2), EXPECTED[1]]
    path.write_bytes(path.read_bytes()[:-40])
    findings = check_pixels(data, Path(), deep=True)
    assert told(findings)[0][0] == "unreadable image"


def test_videos(tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", 4)
    data = named(str(tmp_path), [f"a.mp4#{k}" for k in range(5)])
    (finding,) = check_pixels(data, Path(), deep=True)
    assert told([finding]) == [("unreadable image", 1)]
    assert "a.mp4#4 does not decode: the video has 4 frames" in finding.what
    (finding,) = check_pixels(named(str(tmp_path), ["b.mp4#0"]), Path(), deep=True)
    assert "is missing" in finding.what


def test_size_of_an_image() -> None:
    assert image_size(png()) == (WIDTH, HEIGHT)
    assert isinstance(image_size(b"half"), str)
