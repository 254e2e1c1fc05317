"""What an encoder has seen, and whether it meets it again."""

from pathlib import Path

import polars as pl

from polyplink.data import DataSet, read_data
from polyplink.encoders import Seen
from polyplink.jobs.leakage import overlap, seen_by
from tests.samples import write_procedures


def test_procedures_and_patients_are_known_again_whatever_the_key(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=4, images=False)
    data = read_data(folder)
    every = data.part(None)
    seen = seen_by(data, ["001-001"], ["001-002"])
    assert overlap(seen, data, every) == ["001-001", "001-002"]
    assert overlap(seen, data, ["001-003"]) == []
    assert overlap(Seen(), data, every) == []
    for columns, expected in (
        ({"age": pl.lit(50, dtype=pl.Int32)}, ["001-001", "001-002"]),  # another key
        ({"dataset": pl.lit("another")}, []),
        ({"patient": pl.lit("001-001")}, ["001-001", "001-002", "001-003", "001-004"]),
    ):
        table = data.procedures.with_columns(**columns)
        other = DataSet.of(data.detections, table, data.polyps)
        assert overlap(seen, other, every) == expected
