from pathlib import Path

import numpy as np
import pytest
from polars.testing import assert_frame_equal

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.fragments import crop_rows
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.prepared import (
    Prepared,
    PrepareSettings,
    crops_path,
    open_prepared,
    prepared_folder,
)
from tests.tracklets.sample import write_sample

SETTINGS = PrepareSettings(size=8)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("data")
    write_sample(folder)
    return prepare(folder, SETTINGS)


def test_a_prepared_folder_opens_as_it_was_made(prepared: Prepared) -> None:
    again = open_prepared(prepared.folder.parent.parent, SETTINGS)
    assert (again.key, again.procedures) == (prepared.key, prepared.procedures)
    assert_frame_equal(again.tracklets, prepared.tracklets)
    assert_frame_equal(again.detections, prepared.detections)
    assert_frame_equal(again.spans.polyps, prepared.spans.polyps)


def test_what_was_not_prepared_says_how(prepared: Prepared) -> None:
    with pytest.raises(PolyplinkError, match="under these settings; run `polyplink prepare`"):
        open_prepared(prepared.folder.parent.parent, PrepareSettings(size=9))


def test_a_part_holds_its_procedures_alone(prepared: Prepared) -> None:
    train, rest = prepared.part("train"), prepared.part("eval")
    assert train.procedures == ("p0", "none")
    assert train.tracklets["procedure_id"].to_list() == ["p0", "p0"]
    assert rest.tracklets["tracklet_id"].to_list() == ["p1:00000"]
    assert rest.fragments(4)["tracklet"].unique().to_list() == [0]
    assert prepared.part(None).procedures == ("p0", "p1", "none")
    assert rest.crops("p1").shape == (9, 8, 8, 3)


def test_unknown_parts_and_procedures_are_refused(prepared: Prepared) -> None:
    with pytest.raises(PolyplinkError, match=r"no part 'test' .*; choose one of: eval, train"):
        prepared.part("test")
    with pytest.raises(PolyplinkError, match="no procedure 'p9'; choose among: p0, p1, none"):
        prepared.select(["p9"])


def test_fragments_index_the_crops(prepared: Prepared) -> None:
    fragments = prepared.fragments(4)
    assert fragments.select("procedure_id", "crop_first", "first_frame").rows() == [
        ("p0", 0, 0),
        ("p0", 4, 16),
        ("p0", 9, 0),
        ("p0", 13, 16),
        ("p1", 0, 0),
        ("p1", 4, 16),
    ]
    padded = prepared.part("eval").fragments(4, pad=True)
    assert padded["n"].to_list() == [4, 4, 1]
    rows = crop_rows(padded, 4)
    assert rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 8, 8, 8]]
    assert prepared.crops("p1")[rows].shape == (3, 4, 8, 8, 3)


def test_crops_cannot_be_written_to(prepared: Prepared) -> None:
    with pytest.raises(ValueError, match="read-only"):
        prepared.crops("p0")[0] = 0


def test_a_procedure_without_polyps_has_no_crops(prepared: Prepared) -> None:
    assert prepared.crops("none").shape == (0, 8, 8, 3)
    assert len(prepared.select(["none"]).fragments(pad=True)) == 0


def test_missing_and_broken_crops_say_how_to_mend_them(tmp_path: Path) -> None:
    write_sample(tmp_path)
    prepared = prepare(tmp_path, SETTINGS, procedures=["p0"])
    with pytest.raises(PolyplinkError, match=r"no crops of procedure 'p1' in .*; run `polyplink"):
        open_prepared(tmp_path, SETTINGS).crops("p1")
    path = crops_path(prepared.folder, "p0")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(PolyplinkError, match=r"p0\.npy cannot be read .*; remove it and run"):
        prepared.crops("p0")


def test_broken_tables_say_how_to_mend_them(tmp_path: Path) -> None:
    write_sample(tmp_path)
    folder = prepare(tmp_path, SETTINGS, with_crops=False).folder
    (folder / "detections.parquet").write_bytes(b"no table")
    with pytest.raises(PolyplinkError, match=r"detections\.parquet cannot be read .*; remove"):
        open_prepared(tmp_path, SETTINGS)


def test_each_setting_and_each_data_set_has_its_key(tmp_path: Path) -> None:
    data = write_sample(tmp_path)
    variants = [
        PrepareSettings(),
        PrepareSettings(min_length=20),
        PrepareSettings(stride=2),
        PrepareSettings(max_gap=2),
        PrepareSettings(min_iou=0.2),
        PrepareSettings(crop_factor=None),
        PrepareSettings(size=224),
    ]
    assert len({prepared_folder(tmp_path, data, s) for s in variants}) == len(variants)
    whole = PrepareSettings(crop_factor=5, min_iou=0.1)
    assert prepared_folder(tmp_path, data, whole) == prepared_folder(tmp_path, data, variants[0])


def test_a_procedure_of_any_name_has_a_file_inside_the_folder(tmp_path: Path) -> None:
    for name in ("../../a", "a/b", "..", "001-002", "a b"):
        assert crops_path(tmp_path, name).resolve().parent == (tmp_path / "crops").resolve()
    assert crops_path(tmp_path, "001-002").name == "001-002.npy"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"stride": 0}, "stride is 0; give 1 or more"),
        ({"min_length": 0}, "min_length is 0; give 1 or more"),
        ({"min_iou": 2.0}, "min_iou is 2.0; give a value in"),
        ({"crop_factor": 0.0}, "crop_factor is 0.0; give one above 0, or None"),
        ({"crop_factor": np.nan}, "crop_factor is nan; give one above 0, or None"),
    ],
)
def test_settings_out_of_range_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(PolyplinkError, match=message):
        PrepareSettings(**setting)  # type: ignore[arg-type]
