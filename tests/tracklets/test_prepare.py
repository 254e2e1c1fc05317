"""Prepared data: crops and tables, resumption, broken frames, and damaged files."""

import errno
import json
import os
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import simplejpeg
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.images import Pixels, read_image
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.tracklets import crops as sources
from polyplink.tracklets.crops import BrokenFrame, cut, enlarge
from polyplink.tracklets.prepare import (
    crops_path,
    prepare,
    prepared_folder,
    storing_in,
    typical_crops,
)
from polyplink.tracklets.sampling import cut_tracklets, kept_tracklets
from polyplink.tracklets.settings import PrepareSettings
from tests.samples import write_procedures
from tests.tracklets.sample import HEIGHT, WIDTH, write_sample

SETTINGS = PrepareSettings(size=8)


def images(folder: Path, procedure: int) -> list[np.ndarray]:
    paths = [folder / "images" / f"p{procedure}" / f"{k}.jpg" for k in range(34)]
    return [simplejpeg.decode_jpeg(path.read_bytes()) for path in paths]


def test_crops_equal_a_naive_loop_and_each_frame_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sample(tmp_path)
    decoded: list[Path] = []

    def record_path(path: Path) -> Pixels | str:
        decoded.append(path)
        return read_image(path)

    monkeypatch.setattr(sources, "read_image", record_path)
    prepared = prepare(tmp_path, SETTINGS, workers=2)
    assert len(decoded) == len(set(decoded)) == 18
    for procedure in (0, 1):
        frames = images(tmp_path, procedure)
        expected = []
        for k in range(2 - procedure):
            for frame in range(0, 34, 4):
                box = np.array([[5.0 + frame / 2 + 20 * k, 10.0, 8.0, 6.0]])
                crop = enlarge(box, 5.0, WIDTH, HEIGHT)[0]
                expected.append(cut(frames[frame], crop, 8))
        np.testing.assert_array_equal(prepared.crops(f"p{procedure}"), np.stack(expected))


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_names_the_way_out(number: int, tmp_path: Path) -> None:
    stored = tmp_path / "prepared" / "settings" / "tracklets.parquet"
    kind = OSError if number == errno.ENOSPC else PolyplinkError
    with pytest.raises(kind) as raised, storing_in(tmp_path):
        raise OSError(number, os.strerror(number), str(stored))
    assert ("polyplink merge" in str(raised.value)) == (kind is PolyplinkError)
    elsewhere = PermissionError(errno.EACCES, "no", str(tmp_path / "images" / "1.jpg"))
    with pytest.raises(PermissionError), storing_in(tmp_path):
        raise elsewhere


def test_tables_need_no_images_and_procedures_can_be_selected(tmp_path: Path) -> None:
    write_sample(tmp_path, images=False)
    tracklets = prepare(tmp_path, SETTINGS, with_crops=False).tracklets
    assert tracklets.select("tracklet_id", "polyp_id", "n", "crop_first", "n_crops").rows() == [
        ("p0:00000", "p0_a", 34, 0, 9),
        ("p0:00001", None, 34, 9, 9),
        ("p1:00000", "p1_a", 34, 0, 9),
    ]
    long_only = PrepareSettings(min_length=35, min_seconds=2.0)
    without_tracklets = prepare(tmp_path, long_only, with_crops=False)
    assert (
        len(without_tracklets.tracklets),
        len(without_tracklets.detections),
        len(without_tracklets.fragments()),
    ) == (0, 102, 0)
    with pytest.raises(PolyplinkError, match="procedure 'p0', frame 0: no image; import the data"):
        prepare(tmp_path, SETTINGS)
    write_sample(tmp_path)
    prepared = prepare(tmp_path, SETTINGS, procedures=["p1", "none"], workers=1)
    assert prepared.procedures == ("p1", "none")
    crop_files = set((prepared.folder / "crops").iterdir())
    assert crop_files == {prepared.crops_path(name) for name in ("p1", "none")}
    assert prepared.crops("none").shape == (0, 8, 8, 3)
    with pytest.raises(ValueError, match="read-only"):
        prepared.crops("p1")[0] = 0
    for call, message in (
        (lambda: prepare(tmp_path, SETTINGS, procedures=["p7"]), "no procedure 'p7'; choose among"),
        (lambda: prepare(tmp_path, workers=0), "give --workers 1 or more"),
        (lambda: prepared.fragments(0), "fragments of 0 crops; give a length of 1 to 1000"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            call()


def test_a_track_is_kept_by_its_time_from_the_first_frame_to_the_last() -> None:
    rows = [("v:0", "v", None, 0, 11, 6), ("v:1", "v", None, 20, 28, 9), ("v:2", "v", "a", 0, 9, 9)]
    names = ("tracklet_id", "procedure_id", "polyp_id", "first_frame", "last_frame", "n")
    table = pl.DataFrame(rows, names, orient="row")
    settings = PrepareSettings(min_seconds=0.4, min_length=9)
    assert kept_tracklets(table, settings)["tracklet_id"].to_list() == ["v:0", "v:2"]


def test_a_track_at_few_frames_per_second_has_three_frames() -> None:
    """A false alarm in one or two frames lasts half a second there."""
    rows = [(f"v:{n}", "v", None, 0, n - 1, n) for n in (1, 2, 3)]
    names = ("tracklet_id", "procedure_id", "polyp_id", "first_frame", "last_frame", "n")
    table = pl.DataFrame(rows, names, orient="row", schema_overrides={"polyp_id": pl.String})
    for seconds, names_kept in ((0.5, ["v:3"]), (0.0, ["v:1", "v:2", "v:3"])):
        settings = PrepareSettings(min_seconds=seconds)
        assert kept_tracklets(table, settings, {"v": 2.0})["tracklet_id"].to_list() == names_kept


def test_tracklets_have_their_bridged_share_and_position_in_the_annotated_span(
    tmp_path: Path,
) -> None:
    data = write_sample(tmp_path, images=False)
    missed = pl.col("polyp_id").is_null() & pl.col("frame").is_between(16, 18)
    # A single box extends the span although its tracklet is too short.
    single_box = data.detections.filter(pl.col("procedure_id") == "p1")[:1]
    shifted = data.detections.filter(~missed).with_columns(pl.col("frame") + 20)
    tables = DataSet.of(pl.concat([single_box, shifted]), data.procedures, data.polyps)
    write_data(tmp_path, tables)
    tracklets = prepare(tmp_path, SETTINGS, with_crops=False).tracklets
    assert tracklets["position"].to_list() == [0.0, 0.0, 20 / 53]
    assert tracklets.select("n", "bridged").rows() == [(34, 0.0), (31, 1 - 31 / 34), (34, 0.0)]


def test_a_second_run_writes_nothing_and_reads_no_image(tmp_path: Path) -> None:
    write_sample(tmp_path)
    first = prepare(tmp_path, SETTINGS)
    files = sorted(path for path in first.folder.rglob("*") if path.is_file())
    before = [path.stat().st_mtime_ns for path in files]
    for path in (tmp_path / "images").rglob("*.jpg"):
        path.unlink()
    second = prepare(tmp_path, SETTINGS)
    assert_frame_equal(second.tracklets, first.tracklets)
    assert [path.stat().st_mtime_ns for path in files] == before
    names = {str(path.relative_to(first.folder)) for path in files}
    assert names == {
        *(f"crops/{first.stem(name)}.npy" for name in ("none", "p0", "p1")),
        "detections.parquet",
        "run.json",
        "tracklets.parquet",
    }
    record = json.loads((first.folder / "run.json").read_text())
    assert (record["command"], record["settings"]["size"]) == ("prepare", 8)
    assert record["inputs"] == {"data": first.data.key}
    assert set(record["seconds"]) == {"tracklets", "crops"}
    tmp_path.rename(tmp_path.with_name("moved"))
    moved = prepare(tmp_path.with_name("moved"), SETTINGS)
    assert moved.crops("p1").shape == (9, 8, 8, 3)


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    def read_or_fail(path: Path) -> Pixels | str:
        if path.match(name):
            raise error
        return read_image(path)

    monkeypatch.setattr(sources, "read_image", read_or_fail)


def test_an_interrupted_run_continues_at_the_first_unfinished_procedure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sample(tmp_path)
    with monkeypatch.context() as patch:
        fail_at(patch, "p1/8.jpg", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path, SETTINGS)
    prepared = prepare(tmp_path, SETTINGS, with_crops=False)
    assert list((prepared.folder / "crops").iterdir()) == [prepared.crops_path("p0")]
    for path in (tmp_path / "images" / "p0").iterdir():
        path.unlink()  # finished procedures are not cut again
    progress_calls: list[tuple[int, int]] = []
    prepare(tmp_path, SETTINGS, progress=lambda done, total: progress_calls.append((done, total)))
    assert prepared.crops("p1").shape == (9, 8, 8, 3)
    assert progress_calls == [(18 + k, 27) for k in range(1, 10)]


def test_an_undecodable_frame_divides_its_tracklet(tmp_path: Path) -> None:
    write_sample(tmp_path)
    settings = PrepareSettings(size=8, min_length=10)
    (tmp_path / "images" / "p0" / "12.jpg").write_bytes(b"half")
    prepared = prepare(tmp_path, settings)
    assert [(b.frame, b.image) for b in prepared.broken()["p0"]] == [(12, "p0/12.jpg")]
    columns = ("tracklet_id", "first_frame", "last_frame", "n", "crop_first", "n_crops")
    assert prepared.tracklets.select(columns).rows() == [
        ("p0:00000", 0, 11, 12, 0, 3),
        ("p0:00000.1", 16, 33, 18, 4, 5),
        ("p0:00001", 0, 11, 12, 9, 3),
        ("p0:00001.1", 16, 33, 18, 13, 5),
        ("p1:00000", 0, 33, 34, 0, 9),
    ]
    assert prepared.tracklets["position"].to_list() == [0.0, 16 / 33, 0.0, 16 / 33, 0.0]
    reopened = prepare(tmp_path, settings)
    assert_frame_equal(reopened.tracklets, prepared.tracklets)
    assert prepared.crops("p0")[[0, 1, 2, 4]].any(axis=(1, 2, 3)).all()
    typical = typical_crops(prepared, 100)
    assert len(typical) == 3 + 5 + 3 + 5 + 9
    assert typical.any(axis=(1, 2, 3)).all()  # none is a black one of the broken frame


def test_a_part_has_only_its_procedures(tmp_path: Path) -> None:
    write_sample(tmp_path)
    train, rest = (prepare(tmp_path, SETTINGS, procedures=name) for name in ("train", "eval"))
    assert train.procedures == ("p0", "none")
    assert train.tracklets["procedure_id"].to_list() == ["p0", "p0"]
    assert rest.tracklets["tracklet_id"].to_list() == ["p1:00000"]
    columns = ("tracklet", "crop_first", "first_frame")
    assert rest.fragments(4).select(columns).rows() == [(0, 0, 0), (0, 4, 16)]
    assert rest.crops("p1").shape == (9, 8, 8, 3)


def test_missing_and_damaged_files_name_the_command_and_are_computed_again_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_sample(tmp_path)
    prepared = prepare(tmp_path, SETTINGS, procedures=["p0"])
    with pytest.raises(PolyplinkError, match=r"no crops of procedure 'p1' in .*; run `polyplink"):
        prepare(tmp_path, SETTINGS, with_crops=False).crops("p1")
    path, expected = prepared.crops_path("p0"), np.array(prepared.crops("p0"))

    def write_zipped() -> None:
        with path.open("wb") as file:
            np.savez(file, expected)

    damages = [
        lambda: np.save(path, expected[:-1]),
        lambda: np.save(path, expected[:, :4, :4]),
        lambda: np.save(path, expected.astype(np.float32)),
        lambda: path.write_bytes(b""),
        lambda: path.write_bytes(path.read_bytes()[:500]),
        write_zipped,
    ]
    for damage in damages:
        damage()
        with pytest.raises(PolyplinkError, match=r"p0-\w+\.npy .*run `polyplink prepare`"):
            prepared.crops("p0")
        caplog.clear()
        again = prepare(tmp_path, SETTINGS, procedures=["p0"])
        assert np.array_equal(again.crops("p0"), expected)
        (warning,) = caplog.messages
        assert warning == f"warning: {path} is damaged or of other tracklets; it is made again"
    (prepared.folder / "detections.parquet").write_bytes(b"no table")
    prepared_again = prepare(tmp_path, SETTINGS, procedures=["p0"], with_crops=False)
    assert_frame_equal(prepared_again.detections, prepared.detections)
    assert "detections.parquet is damaged" in caplog.messages[-1]


def test_different_settings_have_different_folders(tmp_path: Path) -> None:
    variants = [
        PrepareSettings(),
        PrepareSettings(min_length=20),
        PrepareSettings(stride=2),
        PrepareSettings(max_gap=2),
        PrepareSettings(min_iou=0.2),
        PrepareSettings(crop_factor=None),
        PrepareSettings(size=224),
    ]
    assert len({prepared_folder(tmp_path, s) for s in variants}) == len(variants)
    equal_settings = PrepareSettings(crop_factor=5, min_iou=0.1)
    assert prepared_folder(tmp_path, equal_settings) == prepared_folder(tmp_path, variants[0])


def test_only_a_changed_procedure_is_cut_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_sample(tmp_path)
    first_boxes = data.detections.filter(pl.col("procedure_id") == "p0")
    write_data(tmp_path, DataSet.of(first_boxes, data.procedures, data.polyps))
    first = prepare(tmp_path, SETTINGS)
    write_data(tmp_path, data)  # now with boxes of p1
    with monkeypatch.context() as patch:
        fail_at(patch, "p0/*.jpg", AssertionError("p0 is cut again"))
        second = prepare(tmp_path, SETTINGS)
    assert second.folder == first.folder
    assert second.key != first.key
    assert [name for name in second.keys if second.keys[name] != first.keys[name]] == ["p1"]
    (tmp_path / "prepared").rename(tmp_path / "before")
    fresh = prepare(tmp_path, SETTINGS)
    assert_frame_equal(second.tracklets, fresh.tracklets)
    assert_frame_equal(second.detections, fresh.detections)
    for name in fresh.procedures:
        before = tmp_path / "before" / second.crops_path(name).relative_to(tmp_path / "prepared")
        assert before.read_bytes() == fresh.crops_path(name).read_bytes()


def test_crops_and_vectors_that_are_older_than_their_pictures_are_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_sample(tmp_path)
    first = prepare(tmp_path, SETTINGS)
    paths = [first.crops_path(name) for name in ("p0", "p1")]
    vectors = first.folder / "vectors" / "encoder" / f"{first.stem('p1')}.parquet"
    vectors.parent.mkdir(parents=True)
    vectors.touch()
    before = [path.read_bytes() for path in paths]
    hour_ago, in_an_hour = time.time() - 3600, time.time() + 3600
    for image in (tmp_path / "images").rglob("*.jpg"):
        content = simplejpeg.decode_jpeg(image.read_bytes())
        image.write_bytes(simplejpeg.encode_jpeg(255 - content))
        os.utime(image, (in_an_hour,) * 2 if image.parent.name == "p0" else (hour_ago,) * 2)
    prepare(tmp_path, SETTINGS)  # pictures that are older, or of a clock that is ahead
    assert [path.read_bytes() for path in paths] == before
    for path in (*paths, vectors):
        os.utime(path, (hour_ago - 1,) * 2)
    prepare(tmp_path, SETTINGS)
    assert paths[0].read_bytes() == before[0]
    assert paths[1].read_bytes() != before[1]
    assert not vectors.exists()
    assert [record.getMessage() for record in caplog.records] == [
        "warning: crops or vectors of 1 procedure (p1) are older than their pictures, and are made "
        "again where they are needed"
    ]


def test_crops_of_any_procedure_name_stay_inside_the_folder(tmp_path: Path) -> None:
    for name in ("../../a", "a/b", "..", "001-002", "a b"):
        assert crops_path(tmp_path, name, "0").resolve().parent == (tmp_path / "crops").resolve()
    assert crops_path(tmp_path, "001-002", "0").name == "001-002-0.npy"


STRIDE = 4


def table(lengths: list[int]) -> tuple[pl.DataFrame, pl.Series]:
    """Consecutive tracklets of these lengths in one procedure, and all frame numbers."""
    rows, offset, crop = [], 0, 0
    for k, n in enumerate(lengths):
        crops = -(-n // STRIDE)
        rows.append(("p", f"p:{k:05}", "a", offset, offset + n - 1, n, offset, crop, crops))
        offset, crop = offset + n, crop + crops
    columns = ("procedure_id", "tracklet_id", "polyp_id", "first_frame", "last_frame", "n")
    schema = [*columns, "offset", "crop_first", "n_crops"]
    return pl.DataFrame(rows, schema=schema, orient="row"), pl.Series(range(offset))


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sets(st.integers(0, 120), max_size=8),
    st.integers(1, 12),
)
def test_cut_tracklets_equals_a_loop_over_crops(
    lengths: list[int], broken_frames: set[int], min_length: int
) -> None:
    tracklets, frames = table(lengths)
    tracklets = tracklets.filter(pl.col("n") >= min_length)
    broken = {"p": [BrokenFrame(frame, "x", "why") for frame in sorted(broken_frames)]}
    actual = cut_tracklets(tracklets, frames, broken, stride=STRIDE, min_length=min_length)
    expected = []
    for row in tracklets.iter_rows(named=True):
        part: list[int] = []  # crops
        crop_frames = [row["offset"] + STRIDE * k for k in range(row["n_crops"])]
        for k, frame in enumerate([*crop_frames, None]):
            if frame is not None and frame not in broken_frames:
                part.append(k)
                continue
            if part:
                end = row["offset"] + row["n"] if frame is None else frame
                first = crop_frames[part[0]]
                if end - first >= min_length:
                    expected.append((first, end - 1, row["crop_first"] + part[0], len(part)))
            part = []
    assert actual.select("first_frame", "last_frame", "crop_first", "n_crops").rows() == expected
    assert actual["tracklet_id"].is_unique().all()
    assert (actual["last_frame"] - actual["first_frame"] + 1 == actual["n"]).all()
    crops = [
        frames[row["offset"] + STRIDE * k]
        for row in actual.iter_rows(named=True)
        for k in range(row["n_crops"])
    ]
    assert not set(crops) & broken_frames


def test_procedure_names_can_have_several_hundred_characters(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=2, views=1)
    data, names = read_data(folder), {"001-001": "a/" + "é" * 600, "001-002": "a/" + "é" * 601}
    renamed = pl.col("procedure_id").replace(names)
    boxes, rows = (table.with_columns(renamed) for table in (data.detections, data.procedures))
    write_data(folder, DataSet.of(boxes, rows, data.polyps.with_columns(renamed)))
    prepared = prepare(folder, PrepareSettings(size=8))
    assert [len(prepared.crops(name)) for name in names.values()] == [8 * 2, 8 * 2]
