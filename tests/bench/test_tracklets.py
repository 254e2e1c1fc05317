import polars as pl
import pytest
from polars.testing import assert_frame_equal

from polyplink.bench import tracklets
from polyplink.bench.tracklets import naive_tracklets, run, synthetic_detections

SIZE = 6000


def test_outputs_are_compared_and_equal() -> None:
    result = run(SIZE)
    assert result.equal
    assert result.size == SIZE
    assert result.rival_s is not None
    assert result.ratio == pytest.approx(result.rival_s / result.ours_s)


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracklets, "naive_tracklets", lambda rows: naive_tracklets(rows)[1:])
    assert not run(SIZE).equal


def test_the_table_has_gaps_and_jumps_and_is_the_same_each_time() -> None:
    table = synthetic_detections(SIZE)
    assert_frame_equal(table, synthetic_detections(SIZE))
    assert len(table) == SIZE
    assert table.select("polyp_id", "frame").is_unique().all()
    own = table.sort("polyp_id", "frame").with_columns(
        step=pl.col("frame").diff().over("polyp_id"),
        shift=pl.col("x").diff().abs().over("polyp_id"),
    )
    assert own.filter(pl.col("step") > 1).height > 10
    assert own.filter((pl.col("step") == 1) & (pl.col("shift") > 110)).height > 10


def test_polyps_and_procedures_are_as_many_as_in_real_colon() -> None:
    table = synthetic_detections(tracklets.BOXES // 4)
    assert table["polyp_id"].n_unique() == tracklets.POLYPS // 4
    assert table["procedure_id"].n_unique() == tracklets.PROCEDURES // 4
