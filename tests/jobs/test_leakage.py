"""What an encoder has seen, and whether it meets it again."""

from pathlib import Path

import polars as pl

from polyplink.data import DataSet, read_data, write_data
from polyplink.encoders import Seen
from polyplink.jobs.leakage import overlap, seen_by
from polyplink.tracklets import Prepared, PrepareSettings, prepare
from tests.samples import write_procedures


def prepared(folder: Path) -> Prepared:
    return prepare(folder, PrepareSettings(size=16), with_crops=False)


def test_procedures_and_patients_are_known_again_whatever_the_key(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=4, images=False)
    first = prepared(folder)
    seen = seen_by(first, ["001-001"], ["001-002"])
    assert overlap(seen, first) == ["001-001", "001-002"]
    assert overlap(seen, first.select(["001-003"])) == []
    assert overlap(Seen(), first) == []
    data = read_data(folder)
    for columns, expected in (
        ({"age": pl.lit(50, dtype=pl.Int32)}, ["001-001", "001-002"]),  # another key
        ({"dataset": pl.lit("another")}, []),
        ({"patient": pl.lit("001-001")}, ["001-001", "001-002", "001-003", "001-004"]),
    ):
        table = data.procedures.with_columns(**columns)
        write_data(tmp_path / "other", DataSet.of(data.detections, table, data.polyps))
        assert overlap(seen, prepared(tmp_path / "other")) == expected
