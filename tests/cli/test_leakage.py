"""Procedures that an encoder has seen, detected in the data of an evaluation."""

from pathlib import Path

import polars as pl

from polyplink.data.tables import DataSet, read_data
from polyplink.encoders.weights import Seen, seen_by, seen_procedures
from tests.samples import write_procedures


def names(seen: Seen, data: DataSet, procedures: list[str]) -> list[str]:
    return [name for name, _ in seen_procedures(seen, data, procedures)]


def test_seen_procedures_and_patients_are_detected_in_changed_tables(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=4, images=False)
    data = read_data(folder)
    all_names = data.part(None)
    seen = seen_by(data, ["001-001"], ["001-002"], Seen())
    assert names(seen, data, all_names) == ["001-001", "001-002"]
    assert names(seen, data, ["001-003"]) == []
    assert names(Seen(), data, all_names) == []
    for columns, expected in (
        ({"age": pl.lit(50, dtype=pl.Int32)}, ["001-001", "001-002"]),  # another key
        ({"dataset": pl.lit("another")}, []),
        ({"patient": pl.lit("001-001")}, ["001-001", "001-002", "001-003", "001-004"]),
    ):
        table = data.procedures.with_columns(**columns)
        other = DataSet.of(data.detections, table, data.polyps)
        assert names(seen, other, all_names) == expected


def test_the_reason_of_leakage_is_reported(tmp_path: Path) -> None:
    data = read_data(write_procedures(tmp_path, procedures=3, images=False))
    table = data.procedures.with_columns(dataset=pl.lit("SUN"), patient=pl.Series(["p", "p", "q"]))
    sun = DataSet.of(data.detections, table, data.polyps)
    seen = Seen("", [("sun", "001-001", "p")], [])
    assert seen_procedures(seen, sun, sun.part(None)) == [
        ("001-001", "the procedure itself"),
        ("001-002", "its patient p"),
    ]
    seen_clips = Seen("", [("sun_seg", "case1_1", "case1")], [])
    assert seen_procedures(seen_clips, sun, ["001-003"]) == [
        ("001-003", "SUN-SEG is cut from SUN's videos")
    ]
    seen = Seen(datasets=("sun", "Kvasir-Capsule"))  # in the pre-training of a published encoder
    assert seen_procedures(seen, sun, ["001-001"]) == [("001-001", "SUN was in its pre-training")]
    seen_clips = Seen(datasets=("SUN-SEG",))
    assert seen_procedures(seen_clips, sun, ["001-001"]) == [
        ("001-001", "SUN-SEG is cut from SUN's videos")
    ]
    assert seen_procedures(seen, data, ["001-001"]) == []


def test_procedures_of_the_initial_weights_are_seen(tmp_path: Path) -> None:
    data = read_data(write_procedures(tmp_path, procedures=2, images=False))
    first, second = (("sample", name, name) for name in ("001-001", "001-002"))
    start = Seen("other", [("b", "9", "q"), first], [], ["SUN"])
    seen = seen_by(data, ["001-001"], ["001-002"], start)
    assert seen == Seen(data.key, [first, ("b", "9", "q")], [second], ["SUN"])
