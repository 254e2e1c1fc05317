import tarfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet, parse_voc, write_annotations
from polyplink.data.sets.write_real_colon import boxes_by_frame
from polyplink.simulate import archives
from polyplink.simulate.archives import (
    AT_A_TIME,
    ArchiveJob,
    tar_blocks,
    voc_text,
    write_archives,
)

IDS = ("001-001", "001-012")


def made(frames: int = 1203) -> DataSet:
    """Two procedures; frames 9 to 11 and the last have a box, frame 10 two."""
    rows = [(9, "1"), (10, "1"), (10, "2"), (11, "1"), (frames - 1, "2")]
    detections = pl.DataFrame(
        [
            {"procedure_id": i, "frame": f, "x": 3 + f % 7, "y": 4, "w": 20, "h": 9}
            | {"polyp_id": f"{i}_{p}"}
            for i in IDS
            for f, p in rows
        ]
    )
    procedures = pl.DataFrame(
        [
            {"procedure_id": i, "dataset": "simulated", "patient": i, "n_frames": frames}
            | {"width": 1352, "height": 1080, "source": "."}
            for i in IDS
        ]
    )
    polyps = pl.DataFrame([{"polyp_id": f"{i}_{p}", "procedure_id": i} for i in IDS for p in "12"])
    return DataSet.of(detections, procedures, polyps)


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {
            member.name: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive
        }


def test_members_are_what_the_folder_holds(tmp_path: Path) -> None:
    write_archives(made(), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{i}_annotations.tar.gz" for i in IDS]
    write_annotations(made(), IDS[0], tmp_path)
    folder = tmp_path / "001-001_annotations"
    found = members(tmp_path / "001-001_annotations.tar.gz")
    assert list(found) == [f"{folder.name}/001-001_{frame}.xml" for frame in range(1203)]
    assert found == {f"{folder.name}/{p.name}": p.read_text() for p in folder.iterdir()}


def test_the_one_procedure_keeps_its_point(tmp_path: Path) -> None:
    write_archives(made(), tmp_path)
    found = members(tmp_path / "001-012_annotations.tar.gz")
    assert list(found)[1202] == "001-012_annotations/001-012_1202.0.xml"
    frame = parse_voc(found["001-012_annotations/001-012_10.0.xml"], "10")
    assert frame.filename == "001-012_10.0.jpg"
    assert [box.unique_id for box in frame.objects] == ["001-012_1", "001-012_2"]
    assert [box.box_id for box in frame.objects] == [1, 2]


@settings(max_examples=8, deadline=None)
@given(st.sets(st.integers(0, 2 * AT_A_TIME + 3), max_size=30), st.integers(1, 2 * AT_A_TIME + 3))
def test_blocks_are_those_of_tarfile(frames: set[int], count: int) -> None:
    """The plain way: one TarInfo a member."""
    some = sorted(frame for frame in frames if frame < count)
    boxes = pl.DataFrame(
        {"frame": some},
        schema={"frame": pl.Int32},
    ).with_columns(polyp_id=pl.lit("001-001_1"), x=1.0, y=2.0, w=30.0, h=4.5)
    job = ArchiveJob(Path("x"), "001-001", count, 1246, 1080, boxes)
    plain = b"".join(tar_blocks(job))
    assert len(plain) % 10240 == 0
    at = 0
    for frame in range(count):
        text = voc_text(job, frame, boxes_by_frame(boxes).get(frame, ())).encode()
        if frame % 997 == 0 or frame in some or frame == count - 1:
            info = tarfile.TarInfo(f"001-001_annotations/001-001_{frame}.xml")
            info.size, info.mtime = len(text), archives.RELEASED_AT
            assert plain[at : at + 512] == info.tobuf(tarfile.USTAR_FORMAT)
            assert plain[at + 512 : at + 512 + len(text)] == text
        at += 512 + -(-len(text) // 512) * 512
    assert not any(plain[at:])


def test_the_same_set_gives_the_same_bytes(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_archives(made(), tmp_path / "a", progress=lambda *step: told.append(step))
    write_archives(made(), tmp_path / "b", workers=2)
    for name in ("001-001_annotations.tar.gz", "001-012_annotations.tar.gz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert told == [(1, 2), (2, 2)]


def test_an_archive_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(job: ArchiveJob) -> object:
        yield b"some"
        raise KeyboardInterrupt

    monkeypatch.setattr(archives, "tar_blocks", cut)
    with pytest.raises(KeyboardInterrupt):
        write_archives(made(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_refused_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "001-001_annotations.tar.gz"
    path.write_bytes(b"mine")
    with pytest.raises(PolyplinkError, match=r"001-001_annotations.tar.gz exists already; choose"):
        write_archives(made(), tmp_path)
    write_archives(made(), tmp_path, keep=True)
    assert path.read_bytes() == b"mine"
    assert (tmp_path / "001-012_annotations.tar.gz").is_file()


def test_a_box_beyond_the_last_frame_is_named(tmp_path: Path) -> None:
    data = made()
    short = DataSet.of(
        data.detections, data.procedures.with_columns(n_frames=pl.lit(1200)), data.polyps
    )
    with pytest.raises(PolyplinkError, match="procedure 001-001: a box in frame 1202 of 1200"):
        write_archives(short, tmp_path)
    assert list(tmp_path.iterdir()) == []
