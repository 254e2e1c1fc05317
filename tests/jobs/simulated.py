"""Tables of a simulated set whose boxes follow the timelines, without cameras or polyps."""

import functools

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink.data import DETECTIONS, POLYPS, PROCEDURES, DataSet, check, split_by_rule
from polyplink.simulate import procedure_specs, real_colon_sim
from polyplink.simulate.course.timeline import Look, draw_timeline
from polyplink.simulate.procedure_specs import ProcedureSpec, stream

COLUMNS = ("polyp", "frame", "x", "y", "w", "h")


def look_boxes(
    rng: np.random.Generator, spec: ProcedureSpec, look: Look
) -> list[NDArray[np.float64]]:
    """Rows (6, s) of `COLUMNS`: boxes whose sizes wander as those of CVC-ClinicDB do."""
    time = np.arange(look.frames)
    swing = rng.lognormal(np.log(0.35), 0.5) * np.sin(time / 15 + rng.uniform(0, 6))
    width = np.exp(rng.normal(np.log(0.29), 0.45) + swing).clip(0.04, 0.9)
    height = (width * rng.lognormal(np.log(1.23), 0.1)).clip(0.04, 0.9)
    w, h = np.round(width * spec.width), np.round(height * spec.height)
    x, y = np.round((spec.width - w) / 2), np.round((spec.height - h) / 2)
    polyps = [p for p in (look.polyp, look.beside) if p is not None]
    return [np.stack([time * 0.0 + p + 1, look.first + time, x, y, w, h]) for p in polyps]


def procedure_boxes(seed: int, spec: ProcedureSpec) -> pl.DataFrame:
    timeline = draw_timeline(stream(seed, spec.procedure_id, "course"), spec, real_colon_sim())
    rng = stream(seed, spec.procedure_id, "test")
    rows = [row for look in timeline.looks for row in look_boxes(rng, spec, look)]
    columns = np.concatenate([np.zeros((6, 0)), *rows], axis=1)
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True))).with_columns(
        pl.col("frame").cast(pl.Int32),
        procedure_id=pl.lit(spec.procedure_id),
        polyp_id=pl.concat_str(
            pl.lit(f"{spec.procedure_id}_"), pl.col("polyp").cast(pl.Int32).cast(pl.String)
        ),
    )


@functools.cache
def simulated_tables(seed: int) -> DataSet:
    """The real-colon-sim of a seed."""
    specs = procedure_specs(real_colon_sim(), seed)
    names = [spec.procedure_id for spec in specs]
    boxes = pl.concat([procedure_boxes(seed, spec) for spec in specs])
    rows = pl.DataFrame([procedure_row(spec) for spec in specs])
    polyps = pl.DataFrame([row for spec in specs for row in polyp_rows(spec)])
    # Not by DataSet.of: its key, that nobody asks for here, takes longer than all the rest.
    return DataSet(
        check(boxes, DETECTIONS, "detections").sort("procedure_id", "frame"),
        check(rows, PROCEDURES, "procedures"),
        check(polyps, POLYPS, "polyps"),
        split_by_rule(names, {spec.procedure_id for spec in specs if spec.polyps}),
        key="",
    )


def procedure_row(spec: ProcedureSpec) -> dict[str, object]:
    fields = ("procedure_id", "n_frames", "fps", "width", "height", "brand", "age", "sex", "bbps")
    return {name: getattr(spec, name) for name in fields} | {
        "dataset": "simulated",
        "patient": spec.procedure_id,
        "source": ".",
    }


def polyp_rows(spec: ProcedureSpec) -> list[dict[str, object]]:
    return [
        {
            "polyp_id": f"{spec.procedure_id}_{index}",
            "procedure_id": spec.procedure_id,
            "size_mm": polyp.size_mm,
            "histology": polyp.histology,
            "histology_class": polyp.histology_class,
            "location": polyp.site,
        }
        for index, polyp in enumerate(spec.polyps, start=1)
    ]
