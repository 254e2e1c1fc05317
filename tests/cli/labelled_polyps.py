"""A small data set with sizes and histology classes of polyps."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from polyplink.data.tables import read_data, write_data
from tests.samples import write_procedures


def write_labelled(root: Path, *, procedures: int = 8) -> Path:
    """Write two polyps per procedure: a hyperplastic one of 3 mm and an adenoma of 8 mm.

    The part "eval" holds all procedures.
    """
    folder = write_procedures(root, procedures=procedures, views=2)
    data = read_data(folder)
    second = pl.col("polyp_id").str.ends_with("_2")
    polyps = data.polyps.with_columns(
        size_mm=pl.when(second).then(8.0).otherwise(3.0),
        histology_class=pl.when(second).then(pl.lit("AD")).otherwise(pl.lit("HP")),
    )
    table = data.procedures.with_columns(dataset=pl.lit("real-colon"))
    names = data.part(None)
    write_data(folder, replace(data, polyps=polyps, procedures=table, splits={"eval": names}))
    return folder
