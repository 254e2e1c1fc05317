"""Hostile values and names: each is refused or left out, with a message."""

import gzip
import os
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import place_of, place_text
from polyplink.data.files import limits
from polyplink.data.tables import Imported
from tests.data.every_format import files_in, write_format
from tests.data.packing import pack
from tests.data.public_sets import SETS
from tests.data.sample_sets import BOX_IMPORTERS

HUGE_NUMBER, TWENTY_DIGITS = "9" * 5000, "9" * 20
IMPORTERS: dict[str, Callable[..., Imported]] = {
    **BOX_IMPORTERS,
    **{name: public.read for name, public in SETS.items()},
}


def import_messages(name: str, source: Path) -> str:
    """The warnings of an import, or the message of its PolyplinkError."""
    try:
        return " | ".join(IMPORTERS[name](source).lines)
    except PolyplinkError as error:
        return str(error)


# Format, part of a file's name, old text (replaced once), new text, part of the message.
REPLACEMENTS = [
    ("coco", ".json", '"width":64', f'"width":{HUGE_NUMBER}', "is not valid JSON"),
    ("coco", ".json", '"width":64', '"width":1e30', ""),
    ("coco", ".json", '"frame_id":0', '"frame_id":NaN', ""),
    ("coco", ".json", '"length":', '"length":1e400,"x":', ""),
    ("coco", ".json", '"name":"', '"name":"\\ud800', "is not valid JSON"),
    ("coco", ".json", '"name":"', '"name":"\\u001b', "is not a valid name"),
    ("coco", ".json", '"file_name":"', '"file_name":"\\u0000/../../x', "outside of the folder"),
    ("mot", "seqinfo.ini", "imWidth=64", "imWidth=inf", "imwidth"),
    ("mot", "seqinfo.ini", "imWidth=64", f"imWidth={HUGE_NUMBER}", "imwidth"),
    ("mot", "seqinfo.ini", "imDir=img1", "imDir=/etc", "imDir is '/etc'"),
    ("mot", "seqinfo.ini", "imDir=img1", "imDir=a\0b", "imDir is"),
    ("mot", "seqinfo.ini", "imDir=img1", "imDir=a\\..\\..", "imDir is"),
    ("mot", "seqinfo.ini", "imDir=img1", "imDir=C:etc", "imDir is 'C:etc'"),
    ("mot", "det.txt", "1,", "1e30,", "box without a frame number"),
    ("mot", "det.txt", ",1,", ",1e30,", ""),
    ("mot", "det.txt", ",1,", ",inf,", ""),
    ("yolo", "data.yaml", "width: 64", f"width: {HUGE_NUMBER}", "width is"),
    ("yolo", "data.yaml", "path", "\xff", "is not UTF-8"),
    ("cvat", ".xml", 'encoding="utf-8"', 'encoding="utf-7"', "is not valid XML"),
    ("cvat", ".xml", 'encoding="utf-8"', 'encoding="big5"', "is not valid XML"),
    ("cvat", ".xml", 'frame="0"', f'frame="{TWENTY_DIGITS}"', "box without a frame number"),
    ("cvat", ".xml", "<stop_frame>", f"<stop_frame>{HUGE_NUMBER}", ""),
    ("csv", "detections.csv", "image\n", "image,image \n", "two columns with the same name"),
    ("csv", "detections.csv", "image\n", "image,line\n", ""),
    ("csv", "detections.csv", "image\n", "image,left\n", ""),
    ("csv", "detections.csv", "image\n", "image,width\n", ""),
    ("csv", "detections.csv", "image\n", "image,exists\n", ""),
    ("csv", "procedures.csv", ",64,", ",1e30,", "width"),
    ("csv", "procedures.csv", ",64,", f",{HUGE_NUMBER},", "width"),
    ("csv", "procedures.csv", "/nowhere", "/no\0where", "is not a valid name"),
    ("real-colon", ".xml", "<width>64<", f"<width>{HUGE_NUMBER}<", "cannot be read"),
    ("real-colon", "video_info.csv", "25", "1e400", "fps"),
    ("ldpolyp", "0001.txt", "1", HUGE_NUMBER, "cannot be read"),
    ("ldpolyp", "0001.txt", "1", "\u0661", ""),
    ("polypsset", ".xml", "<width>", f"<width>{HUGE_NUMBER}", ""),
    ("sun", "case2.txt", "_a1_", f"_a{HUGE_NUMBER}_", ""),
    ("polyp-size", "labels.csv", "mm", f"{HUGE_NUMBER}mm", ""),
]


@pytest.mark.parametrize(("name", "part", "old", "new", "message"), REPLACEMENTS)
def test_a_hostile_value_is_refused_or_left_out(
    name: str, part: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    write_format(name, tmp_path)
    files = files_in(name)
    path = next(p for p in files if part in p and old.encode() in files[p])
    code = "latin-1" if new == "\xff" else "utf-8"
    (tmp_path / path).write_bytes(files[path].replace(old.encode(), new.encode(code), 1))
    assert message in import_messages(name, tmp_path)


@pytest.mark.parametrize("name", ["a\0b.csv", "a\x1fb.csv", "place.line\n.csv"])
def test_a_place_with_control_characters_is_named(name: str) -> None:
    at = pl.select(place_text("place.line", file=pl.lit(name), number=pl.lit(7))).item()
    assert str(place_of(at)) == f"{name.replace(chr(0), ' ')}, line 7"
    assert place_of(name) == name


@pytest.mark.parametrize("number", [TWENTY_DIGITS, HUGE_NUMBER])
@pytest.mark.parametrize("name", ["ldpolyp", "sun", "polypsset", "cvat"])
def test_long_numbers_in_names_of_archive_members_are_refused_or_left_out(
    name: str, number: str, tmp_path: Path
) -> None:
    *paths, last = files = files_in(name)
    stem, dot, ending = last.rpartition(".")
    renamed = {path: files[path] for path in paths}
    renamed[f"{stem.rstrip('0123456789')}{number}{dot}{ending}"] = files[last]
    assert import_messages(name, pack(tmp_path / "in" / "a.tar", renamed).parent)
    image = {f"images/frame_{number}.png": b""} if name == "cvat" else {}
    assert import_messages(name, pack(tmp_path / "zip" / "a.zip", image | renamed).parent)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (f"a_{TWENTY_DIGITS}.xml", "has no frame number"),
        (f"a_{HUGE_NUMBER}.xml", "has no frame number"),
        (os.fsdecode(b"a\xff_0.xml"), "is not UTF-8; rename it"),
    ],
    ids=["twenty digits", "huge number", "not UTF-8"],
)
def test_names_in_an_archive_of_real_colon_are_refused(
    member: str, message: str, tmp_path: Path
) -> None:
    files = files_in("real-colon")
    pack(tmp_path / "001-001_annotations.tar", {member: b"<annotation></annotation>"})
    for table in ("video_info.csv", "lesion_info.csv"):
        (tmp_path / table).write_bytes(files[table])
    assert message in import_messages("real-colon", tmp_path)


@pytest.mark.parametrize("name", IMPORTERS)
def test_names_that_are_not_utf_8_are_left_out_or_refused(name: str, tmp_path: Path) -> None:
    """The first file, and the first folder of each depth, are renamed."""
    write_format(name, tmp_path)
    paths = sorted(tmp_path.rglob("*"))
    first = {(path.is_file(), len(path.parts) * path.is_dir()): path for path in paths[::-1]}
    for path in first.values():
        invalid = os.fsdecode(os.fsencode(path.parent / path.stem) + b"\xff") + path.suffix
        path.rename(invalid)
        assert "\udcff" not in import_messages(name, tmp_path)
        Path(invalid).rename(path)


def test_a_zip_member_without_a_name_is_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("x"), b"")
        archive.infolist()[0].filename = ""
    assert "has no files TrainValid" in import_messages("ldpolyp", tmp_path / "a.zip")


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
@pytest.mark.parametrize("size", [60 << 30, -1])
def test_a_tar_header_with_a_false_size_is_refused(size: int, ending: str, tmp_path: Path) -> None:
    info = tarfile.TarInfo("TrainValid/Annotations/1/0001.txt")
    info.size = size
    data = info.tobuf(tarfile.GNU_FORMAT) + bytes(4096)
    if ending == "tar.gz":
        data = gzip.compress(data)
    (tmp_path / f"a.{ending}").write_bytes(data)
    assert re.search("cut short|MiB|damaged", import_messages("ldpolyp", tmp_path / f"a.{ending}"))


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
@pytest.mark.parametrize(("count", "size"), [(1, 3), (10, 1)])
def test_an_archive_with_too_large_contents_is_refused_with_the_option_that_lifts_the_limit(
    ending: str, count: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LARGEST_MEMBER", 2 << 20)
    monkeypatch.setattr(limits, "LARGEST_TOTAL", 8 << 20)
    member = "TrainValid/Annotations/1/{:04d}.txt"
    content = b"0" + b"\n" * (size << 20)
    archive = tmp_path / f"a.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
            for k in range(count):
                opened.writestr(member.format(k + 1), content)
    else:
        pack(archive, {member.format(k + 1): content for k in range(count)})
    assert "MiB" in import_messages("ldpolyp", archive)
    assert "--no-limits" in import_messages("ldpolyp", archive)
    monkeypatch.setenv(limits.LIFTED, "1")
    monkeypatch.setattr("polyplink.data.sets.ldpolyp.parse_boxes", lambda *_: [])
    assert "MiB" not in import_messages("ldpolyp", archive)
