import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.formats.sound_boxes import boxes_inside, sound_boxes

NAMES = ("at", "procedure_id", "frame", "x", "y", "w", "h", "score")
real = st.none() | st.floats() | st.sampled_from([0.0, 1.0, 5.0])


def table(*rows: tuple[object, ...]) -> pl.DataFrame:
    schema = {n: pl.String if i < 2 else pl.Float64 for i, n in enumerate(NAMES)}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.just("v"), real, real, real, real, real, real)))
def test_what_is_kept_can_be_used(rows: list[tuple[object, ...]]) -> None:
    boxes = table(*((str(i), *row) for i, row in enumerate(rows)))
    faults = Faults()
    kept = sound_boxes(boxes, faults)
    left_out = sum(n for kind, (n, _) in faults.counts.items() if not kind.startswith("score"))
    assert kept.height + left_out == len(rows)
    assert kept.schema["frame"] == pl.Int32
    for row in kept.iter_rows(named=True):
        assert row["procedure_id"] == "v"
        assert row["frame"] >= 0
        assert all(abs(row[side]) < float("inf") for side in "xywh")
        assert min(row["w"], row["h"]) > 0
        assert row["score"] is None or 0 <= row["score"] <= 1


def test_a_frame_the_procedure_has() -> None:
    procedures = pl.DataFrame(
        {"procedure_id": ["v"], "n_frames": [3], "width": [64], "height": [48]}
    )
    boxes = sound_boxes(
        table(
            ("in", "v", 2, 1, 1, 5, 5, None),
            ("late", "v", 3, 1, 1, 5, 5, None),
            ("right", "v", 0, 64, 1, 5, 5, None),
            ("left", "v", 0, -5, 1, 5, 5, None),
            ("partly", "v", 0, -4, 46, 5, 5, None),
        ),
        Faults(),
    )
    faults = Faults()
    assert boxes_inside(boxes, procedures, faults)["at"].to_list() == ["in", "partly"]
    assert faults.lines() == [
        "1 x box beyond the last frame of its procedure, left out (first: late)",
        "2 x box wholly outside the image, left out (first: right)",
    ]
    with pytest.raises(PolyplinkError, match=r"late: box beyond the last frame .*; correct the"):
        boxes_inside(boxes, procedures, Faults(strict=True))
