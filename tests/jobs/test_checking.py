from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.data import DataSet
from polyplink.jobs import checking
from polyplink.jobs.agreement import rows_text
from polyplink.jobs.checking import check_simulation, check_tables, log_area_spread, quantiles
from polyplink.simulate import Preset, real_colon_sim, smoke
from polyplink.tracklets import build_tracklets
from tests.jobs.simulated import simulated_tables


@pytest.mark.parametrize("seed", range(5))
def test_all_figures_hold(seed: int) -> None:
    rows = check_tables(simulated_tables(seed))
    assert len(rows) > 30
    assert [row.name for row in rows if not row.holds] == []
    assert len({row.name for row in rows}) == len(rows)


def procedures(data: DataSet, **columns: pl.Expr) -> DataSet:
    return replace(data, procedures=data.procedures.with_columns(**columns))


def polyps(data: DataSet, **columns: pl.Expr) -> DataSet:
    return replace(data, polyps=data.polyps.with_columns(**columns))


def detections(data: DataSet, **columns: pl.Expr) -> DataSet:
    return replace(data, detections=data.detections.with_columns(**columns))


def one(column: str, value: object, row: int = 0) -> pl.Expr:
    return pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(column)


def keep_boxes(data: DataSet, kept: pl.Expr) -> DataSet:
    return replace(data, detections=data.detections.filter(kept))


def stretched(data: DataSet, factor: float) -> DataSet:
    """Each box as large as before, but for every other one of a tracklet."""
    wide = pl.when(pl.col("frame") % 40 < 20).then(pl.col("h") * factor).otherwise("h")
    return detections(data, h=wide)


def merged(data: DataSet) -> DataSet:
    """Nothing is lost of sight any more: whole runs of frames for the frames of a polyp."""
    frame = pl.int_range(pl.len(), dtype=pl.Int32).over("polyp_id")
    return detections(data, frame=frame)


def cut(data: DataSet, every: int) -> DataSet:
    """Every so many frames a box jumps, so that its tracklet ends."""
    return detections(data, x=pl.col("x") + 3000 * (pl.col("frame") // every % 2))


Change = Callable[[DataSet], DataSet]
CHANGES: dict[str, Change] = {
    "a patient has two procedures": lambda d: procedures(d, patient=one("patient", "001-002")),
    "a procedure has no part": lambda d: replace(
        d, splits=dict(d.splits) | {"eval": d.splits["eval"][1:], "negative": []}
    ),
    "a polyp is lost": lambda d: replace(d, polyps=d.polyps[1:]),
    "a rate is off": lambda d: procedures(d, fps=one("fps", 30.0)),
    "a brand is off": lambda d: procedures(d, brand=one("brand", "polyplink")),
    "a sex is off": lambda d: procedures(d, sex=one("sex", None)),
    "a frame size is off": lambda d: procedures(d, width=one("width", 1350)),
    "a procedure is longer": lambda d: procedures(d, n_frames=one("n_frames", 45_466)),
    "procedures are longer": lambda d: procedures(d, n_frames=pl.col("n_frames") * 2),
    "polyps are larger": lambda d: polyps(d, size_mm=pl.col("size_mm") + 1),
    "classes are exchanged": lambda d: polyps(
        d, histology_class=pl.col("histology_class").replace({"AD": "HP", "HP": "AD"})
    ),
    "a class is unknown": lambda d: polyps(d, histology_class=one("histology_class", None)),
    "half of the boxes": lambda d: keep_boxes(d, pl.col("frame") % 2 == 0),
    "twice the boxes": lambda d: replace(
        d,
        detections=pl.concat(
            [d.detections, d.detections.with_columns(frame=pl.col("frame") + 10**6)]
        ),
    ),
    "one box a frame": lambda d: replace(
        d, detections=d.detections.unique(["procedure_id", "frame"], maintain_order=True)
    ),
    "a box without a polyp": lambda d: detections(d, procedure_id=one("procedure_id", "001-002")),
    "never out of sight": merged,
    "boxes jump": lambda d: cut(d, 20),
    "small boxes": lambda d: detections(d, w=pl.col("w") / 2, h=pl.col("h") / 2),
    "sizes swing": lambda d: stretched(d, 6.0),
}
FAILED: dict[str, set[str]] = {}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_changed_table_fails(change: str) -> None:
    rows = check_tables(CHANGES[change](simulated_tables(0)))
    FAILED[change] = {row.name for row in rows if not row.holds}
    assert FAILED[change]
    assert "NO" in rows_text(rows)


def test_every_row_can_fail() -> None:
    """No row holds whatever the tables say."""
    data = simulated_tables(0)
    failed = set().union(
        *(
            {row.name for row in check_tables(change(data)) if not row.holds}
            for name, change in CHANGES.items()
            if name not in FAILED
        ),
        *FAILED.values(),
    )
    assert {row.name for row in check_tables(data)} - failed == set()


def test_an_empty_set_is_no_crash() -> None:
    data = simulated_tables(0)
    empty = replace(data, detections=data.detections.clear(), polyps=data.polyps.clear())
    rows = check_tables(empty)
    assert sum(not row.holds for row in rows) > 20


def test_a_simulation_is_made_without_pictures_and_left_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Path, Preset, int]] = []

    def made(out: Path, preset: Preset, seed: int, **_: object) -> DataSet:
        out.mkdir()
        asked.append((out, preset, seed))
        return simulated_tables(1)

    monkeypatch.setattr(checking, "simulate", made)
    rows = check_simulation(real_colon_sim(), 1)
    assert rows == check_tables(simulated_tables(1))
    ((out, preset, seed),) = asked
    assert (preset.frames, preset.annotations, seed) == ("none", "none", 1)
    assert preset.polyps == real_colon_sim().polyps
    assert not out.exists()


def test_another_set_does_not_agree() -> None:
    one = replace(smoke(), polyps=(("001-001", 1),))
    rows = check_simulation(one, 0, workers=1)
    assert sum(not row.holds for row in rows) > 20


def test_quantiles_are_values() -> None:
    assert quantiles(np.array([3.0, 1.0, 2.0, 4.0]), 0, 0.5, 1) == (1.0, 2.0, 4.0)
    assert quantiles(np.zeros(0), 0.5) == ()


def test_log_area_spread_is_that_of_each_tracklet() -> None:
    data = simulated_tables(0)
    ordered, tracklets = build_tracklets(data.detections.head(20_000))
    some = tracklets.filter(pl.col("n") >= 30)
    plain = [
        np.log((part["w"] * part["h"]).to_numpy().astype(np.float64)).std()
        for row in some.head(50).iter_rows(named=True)
        for part in [ordered[row["offset"] : row["offset"] + row["n"]]]
    ]
    assert log_area_spread(ordered, some)[:50] == pytest.approx(plain, abs=1e-5)
