"""The source of the boxes of a data folder."""

from pathlib import Path

import polars as pl

from polyplink.core.messages import Message
from polyplink.data.origin import (
    BoxesOrigin,
    BoxSource,
    box_source,
    share_not_decoded,
    write_origin,
    write_warnings,
)
from polyplink.data.tables import DataSet, read_data, write_data
from tests.samples import write_procedures


def test_the_source_of_boxes_is_the_recorded_detector_or_annotation(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=2)
    data = read_data(folder)
    names = data.procedures["procedure_id"].to_list()
    assert box_source(folder, data, names) == BoxSource("annotated", None, "recordings", fps=25.0)
    scored = data.detections.with_columns(score=0.5, polyp_id=pl.lit(None, pl.String))
    sets = pl.Series("dataset", ["simulated tiny 3", "own"])
    mixed = DataSet.of(scored, data.procedures.with_columns(sets), data.polyps, {})
    write_data(folder, mixed)
    assert box_source(folder, mixed, names[:1]).material == "simulated procedures"
    assert box_source(folder, mixed, names).material == "mixed"
    assert box_source(folder, mixed, names[1:]).boxes == "unknown"
    for rates, lowest in (([10.0, 25.0], 10.0), ([10.0, None], None)):
        procedures = data.procedures.with_columns(pl.Series("fps", rates, pl.Float32))
        other = DataSet.of(data.detections, procedures, data.polyps, {})
        assert box_source(folder, other, names).fps == lowest
    # A live count that dropped 60 of 100 frames.
    write_warnings(folder, [Message("live.late", {"n": 60, "frames": 100})])
    assert box_source(folder, data, names).fps == 10.0
    broken = Message("not_decoded", {"n": 30, "frames": 120, "name": names[0]})
    write_warnings(folder, [broken])
    assert share_not_decoded(folder, names) == 0.25
    assert share_not_decoded(folder, names[1:]) == 0
    write_warnings(folder, [])
    write_origin(folder, BoxesOrigin("3fa9", "YOLO"))
    assert box_source(folder, mixed, names[1:]) == BoxSource("3fa9", "YOLO", "recordings", fps=25.0)
