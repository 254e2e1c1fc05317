"""A row for every procedure, made of what the source, its side table and the caller say."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.tables import PROCEDURES

Size = tuple[int, int]  # width, height in pixels


def procedure_rows(
    found: pl.DataFrame, side: pl.DataFrame, boxes: pl.DataFrame, defaults: Mapping[str, object]
) -> pl.DataFrame:
    """Join what is known of every procedure; the first that says a value counts.

    Args:
        found: procedure_id and any columns of `PROCEDURES`, from the format itself.
        side: `procedures.csv`, which is before `found`.
        boxes: Column procedure_id.
        defaults: Values for columns where neither has one.

    Returns:
        All columns of `PROCEDURES`, null where nobody says: the side table's procedures in its
        order, then those of `found`, then those that only boxes name.
    """
    parts = [table.select("procedure_id") for table in (side, found, boxes)]
    ids = pl.concat(parts).drop_nulls().unique(maintain_order=True)
    rows = ids.join(
        side.unique("procedure_id", keep="first"),
        on="procedure_id",
        how="left",
        maintain_order="left",
    )
    rows = rows.join(found, on="procedure_id", how="left", suffix=" found", maintain_order="left")
    columns = []
    for name, column in PROCEDURES.items():
        values: list[pl.Expr] = [
            pl.col(c).cast(column.dtype, strict=False)
            for c in (name, f"{name} found")
            if c in rows.columns
        ]
        values.append(pl.lit(defaults.get(name), dtype=column.dtype))
        columns.append(pl.coalesce(values).alias(name))
    return rows.select(columns)


def complete_procedures(rows: pl.DataFrame, boxes: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Fill what can be said of a procedure without its source, and tell of it.

    The number of frames becomes the last box's frame + 1; the patient, the procedure itself.

    Args:
        rows: From `procedure_rows`.
        boxes: procedure_id and frame.
        faults: Gets the warnings.

    Raises:
        PolyplinkError: If a procedure has no width and height, or neither a number of frames nor
            a box.
    """
    last = boxes.group_by("procedure_id").agg(last=pl.col("frame").max() + 1)
    rows = rows.join(last, on="procedure_id", how="left", maintain_order="left")
    guessed = rows.filter(pl.col("n_frames").is_null())
    alone = guessed.filter(pl.col("last").is_null())
    if alone.height:
        raise PolyplinkError(
            f"procedure {alone['procedure_id'][0]} has no box and no number of frames",
            "write its n_frames into procedures.csv beside the source",
        )
    if guessed.height:
        faults.warn(
            "procedure without a number of frames, taken as its last box's frame + 1",
            guessed["procedure_id"][0],
            guessed.height,
        )
    strange = rows.filter(pl.col("patient").is_null())
    if strange.height:
        faults.warn(
            "procedure of an unknown patient, taken as a patient of its own",
            strange["procedure_id"][0],
            strange.height,
        )
    _require_sizes(rows)
    return rows.with_columns(
        n_frames=pl.coalesce("n_frames", "last"), patient=pl.coalesce("patient", "procedure_id")
    ).drop("last")


def _require_sizes(rows: pl.DataFrame) -> None:
    size = pl.min_horizontal(pl.col("width", "height").fill_null(0))
    bare = rows.filter(size <= 0)
    if bare.height:
        raise PolyplinkError(
            f"procedure {bare['procedure_id'][0]}: width and height of its frames are not known",
            "say the size of the frames with --size WxH, or write them into procedures.csv beside "
            "the source",
        )


def source_folder(source: Path) -> Path:
    """The folder that a source's image paths and side tables are relative to."""
    return source if source.is_dir() else source.parent
