"""What is known of simulated procedures: written procedure by procedure, read as a data set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet, frame_stem, frames_folder, simulated_name, split_by_rule
from polyplink.simulate.origin import TRUTH, Origin
from polyplink.simulate.plan import Plan
from polyplink.simulate.specs import ProcedureSpec


def truth_path(out: Path, procedure_id: str) -> Path:
    """The file with what is known of one procedure."""
    return out / TRUTH / f"{procedure_id}.json"


def boxes_path(out: Path, procedure_id: str) -> Path:
    """The table of one procedure's boxes."""
    return out / TRUTH / f"{procedure_id}.parquet"


def truth_of(plan: Plan) -> dict[str, Any]:
    """What a procedure was made from, JSON-ready: its tables, what happens when, every polyp."""
    return {
        "procedure": to_plain(plan.spec),
        "timeline": to_plain(plan.timeline),
        "traits": to_plain(plan.traits),
    }


def read_truth(out: Path, origin: Origin, specs: Sequence[ProcedureSpec]) -> DataSet:
    """Read all procedures of a simulation back as a data set.

    Args:
        out: Folder that they were written to.
        origin: What they were made from.
        specs: Of every procedure.

    Returns:
        The data set, equal to what importing the written folder gives; its parts are those of
        `data.split_by_rule`.

    Raises:
        PolyplinkError: If a procedure's boxes are missing.
    """
    tables = [_boxes(out, spec.procedure_id) for spec in specs]
    splits = split_by_rule(
        [spec.procedure_id for spec in specs], {spec.procedure_id for spec in specs if spec.polyps}
    )
    return DataSet.of(
        _detections(pl.concat(tables), pictures=origin.preset.frames != "none"),
        _procedures(out, origin, specs),
        _polyps(specs),
        splits,
    )


def _boxes(out: Path, procedure_id: str) -> pl.DataFrame:
    path = boxes_path(out, procedure_id)
    if not path.is_file():
        raise PolyplinkError(f"{path} is missing", "give the same `polyplink simulate` again")
    return pl.read_parquet(path).with_columns(procedure_id=pl.lit(procedure_id))


def polyp_id(procedure_id: str, index: int) -> str:
    """Name of a procedure's polyp, index from 0; names count from 1, as in REAL-Colon."""
    return f"{procedure_id}_{index + 1}"


def _detections(boxes: pl.DataFrame, *, pictures: bool) -> pl.DataFrame:
    name, frame = pl.col("procedure_id"), pl.col("frame")
    folder, stem = frames_folder("{}"), frame_stem("{}", 0).replace("0", "{}")
    image = pl.format(f"{folder}/{stem}.jpg", name, name, frame)
    return boxes.select(
        "procedure_id",
        "frame",
        "x",
        "y",
        "w",
        "h",
        pl.format("{}_{}", name, pl.col("polyp") + 1).alias("polyp_id"),
        (image if pictures else pl.lit(None, pl.String)).alias("image"),
    )


def _procedures(out: Path, origin: Origin, specs: Sequence[ProcedureSpec]) -> pl.DataFrame:
    fields = ("procedure_id", "n_frames", "fps", "width", "height", "brand", "age", "sex", "bbps")
    rows = [{name: getattr(spec, name) for name in fields} for spec in specs]
    # Tables alone are a data folder themselves, which may be moved.
    source = "." if origin.preset.annotations == "none" else str(out.resolve())
    return pl.DataFrame(rows).with_columns(
        dataset=pl.lit(simulated_name(origin.preset.name, origin.seed)),
        patient=pl.col("procedure_id"),
        source=pl.lit(source),
    )


def _polyps(specs: Sequence[ProcedureSpec]) -> pl.DataFrame:
    rows = [
        {
            "polyp_id": polyp_id(spec.procedure_id, index),
            "procedure_id": spec.procedure_id,
            "size_mm": polyp.size_mm,
            "histology": polyp.histology,
            "histology_class": polyp.histology_class,
            "location": polyp.site,
        }
        for spec in specs
        for index, polyp in enumerate(spec.polyps)
    ]
    return pl.DataFrame(rows, schema=["polyp_id", "procedure_id"] if not rows else None)
