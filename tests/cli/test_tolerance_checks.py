"""The comparison of simulated tables with published figures."""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polyplink.data.protocols import split_by_rule
from polyplink.data.tables import DETECTIONS, POLYPS, PROCEDURES, DataSet, check
from polyplink_lab.simulate import tolerance_checks
from polyplink_lab.simulate.course.timeline import draw_timeline
from polyplink_lab.simulate.data_set import tables_of
from polyplink_lab.simulate.detector import DETECTORS, DetectorPreset
from polyplink_lab.simulate.presets import Preset, real_colon_sim
from polyplink_lab.simulate.procedure_specs import ProcedureSpec, procedure_specs, stream
from polyplink_lab.simulate.tolerance_checks import (
    ABOVE,
    AT_LEAST,
    AT_MOST,
    EXACT,
    ROUNDED,
    Row,
    Tolerance,
    check_detector,
    check_simulation,
    check_tables,
    compare,
    within,
)

# --- One row --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "values", "holds"),
    [
        (EXACT, (100, 10), True),
        (EXACT, (100, 11), False),
        (within(0.1), (110, 9), True),
        (within(0.1), (110, 8.9), False),
        (within(0.1), (110.1, 10), False),
        (ROUNDED, (100.004, 9.996), True),
        (ROUNDED, (100.006, 10), False),
        (AT_MOST, (100, 3), True),
        (AT_MOST, (101, 3), False),
        (AT_LEAST, (100, 11), True),
        (AT_LEAST, (99, 11), False),
        (ABOVE, (101, 11), True),
        (ABOVE, (100, 11), False),
        (EXACT, (), False),
        (EXACT, (100, 10, 1), False),
        (AT_LEAST, (100, math.nan), False),
    ],
)
def test_compare_applies_the_tolerance(
    tolerance: Tolerance, values: tuple[float, ...], holds: bool
) -> None:
    row = compare("polyps", "somebody", tolerance, (100, 10), values)
    assert row.holds is holds
    assert (row.name, row.source, row.published) == ("polyps", "somebody", (100, 10))


# --- Complete tables ------------------------------------------------------------------------

COLUMNS = ("polyp", "frame", "x", "y", "w", "h")


def procedure_boxes(seed: int, spec: ProcedureSpec) -> pl.DataFrame:
    """Boxes of the timeline's looks; sizes vary as in CVC-ClinicDB."""
    timeline = draw_timeline(stream(seed, spec.procedure_id, "course"), spec, real_colon_sim())
    rng, rows = stream(seed, spec.procedure_id, "test"), [np.zeros((6, 0))]
    for look in timeline.looks:
        time = np.arange(look.frames)
        swing = rng.lognormal(np.log(0.35), 0.5) * np.sin(time / 15 + rng.uniform(0, 6))
        width = np.exp(rng.normal(np.log(0.29), 0.45) + swing).clip(0.04, 0.9)
        height = (width * rng.lognormal(np.log(1.23), 0.1)).clip(0.04, 0.9)
        w, h = np.round(width * spec.width), np.round(height * spec.height)
        x, y = np.round((spec.width - w) / 2), np.round((spec.height - h) / 2)
        polyps = [p for p in (look.polyp, look.beside) if p is not None]
        rows += [np.stack([time * 0.0 + p + 1, look.first + time, x, y, w, h]) for p in polyps]
    columns = np.concatenate(rows, axis=1)
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True))).with_columns(
        pl.col("frame").cast(pl.Int32),
        procedure_id=pl.lit(spec.procedure_id),
        polyp_id=pl.concat_str(
            pl.lit(f"{spec.procedure_id}_"), pl.col("polyp").cast(pl.Int32).cast(pl.String)
        ),
    )


@functools.cache
def simulated_tables(seed: int) -> DataSet:
    """Tables of real-colon-sim with boxes from the timelines, without simulating cameras."""
    specs = procedure_specs(real_colon_sim(), seed)
    names = [spec.procedure_id for spec in specs]
    boxes = pl.concat([procedure_boxes(seed, spec) for spec in specs])
    rows, polyps = tables_of(specs, "simulated", ".")
    # Not with DataSet.of, which spends most of its time on an unused key.
    return DataSet(
        check(boxes, DETECTIONS, "detections").sort("procedure_id", "frame"),
        check(rows, PROCEDURES, "procedures"),
        check(polyps, POLYPS, "polyps"),
        split_by_rule(names, {spec.procedure_id for spec in specs if spec.polyps}),
        key="",
    )


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_simulated_tables_hold_all_figures(seed: int) -> None:
    rows = check_tables(simulated_tables(seed))
    assert len({row.name for row in rows}) == len(rows) == 35
    assert [row.name for row in rows if not row.holds] == []


def with_columns(data: DataSet, table: str, **columns: pl.Expr) -> DataSet:
    return replace(data, **{table: getattr(data, table).with_columns(**columns)})


def set_row(column: str, value: object, row: int = 0) -> pl.Expr:
    return pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(column)


Change = Callable[[DataSet], DataSet]
CHANGES: dict[str, Change] = {
    "a patient has two procedures": lambda d: with_columns(
        d, "procedures", patient=set_row("patient", "001-002")
    ),
    "a procedure has no part": lambda d: replace(
        d, splits=dict(d.splits) | {"eval": d.splits["eval"][1:], "negative": []}
    ),
    "a polyp is lost": lambda d: replace(d, polyps=d.polyps[1:]),
    "a rate is off": lambda d: with_columns(d, "procedures", fps=set_row("fps", 30.0)),
    "a brand is off": lambda d: with_columns(d, "procedures", brand=set_row("brand", "polyplink")),
    "a sex is off": lambda d: with_columns(d, "procedures", sex=set_row("sex", None)),
    "a frame size is off": lambda d: with_columns(d, "procedures", width=set_row("width", 1350)),
    "procedures are longer": lambda d: with_columns(
        d, "procedures", n_frames=pl.col("n_frames") * 2
    ),
    "polyps are larger": lambda d: with_columns(d, "polyps", size_mm=pl.col("size_mm") + 1),
    "half of the boxes": lambda d: replace(
        d, detections=d.detections.filter(pl.col("frame") % 2 == 0)
    ),
    "a box without a polyp": lambda d: with_columns(
        d, "detections", procedure_id=set_row("procedure_id", "001-002")
    ),
    "never out of sight": lambda d: with_columns(
        d, "detections", frame=pl.int_range(pl.len(), dtype=pl.Int32).over("polyp_id")
    ),
    "small boxes": lambda d: with_columns(d, "detections", w=pl.col("w") / 2, h=pl.col("h") / 2),
}


@pytest.mark.slow
def test_every_change_makes_a_row_fail_and_every_row_can_fail() -> None:
    data = simulated_tables(0)
    failed: set[str] = set()
    for name, change in CHANGES.items():
        failed_rows = {row.name for row in check_tables(change(data)) if not row.holds}
        assert failed_rows, name
        failed |= failed_rows
    assert {row.name for row in check_tables(data)} == failed
    empty = replace(data, detections=data.detections.clear(), polyps=data.polyps.clear())
    assert sum(not row.holds for row in check_tables(empty)) > 20


@pytest.mark.slow
def test_check_simulation_renders_no_pictures_and_leaves_no_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[Path, Preset, int]] = []
    detector_rows: list[Row] = []

    def record_detector(data: DataSet, preset: DetectorPreset, *rest: object) -> list[Row]:
        assert preset == DETECTORS["gi-genius"]
        detector_rows.extend(check_detector(data, preset, 0))
        return detector_rows

    def record_simulation(out: Path, preset: Preset, seed: int, **_: object) -> DataSet:
        out.mkdir()
        calls.append((out, preset, seed))
        return simulated_tables(seed)

    monkeypatch.setattr(tolerance_checks, "simulate", record_simulation)
    monkeypatch.setattr(tolerance_checks, "check_detector", record_detector)
    tables = simulated_tables(0)
    assert check_simulation(real_colon_sim(), 0) == check_tables(tables) + detector_rows
    assert [row.holds for row in detector_rows] == [True] * 3
    # A detector with other rates fails in every row.
    slow = DetectorPreset(0.6, 30.0, 20.0, median_alarm=6.0)
    assert [row.holds for row in check_detector(tables, slow, 0)] == [False] * 3
    ((out, preset, seed),) = calls
    assert (preset.frames, preset.annotations, seed) == ("none", "none", 0)
    assert preset.polyps == real_colon_sim().polyps
    assert not out.exists()
