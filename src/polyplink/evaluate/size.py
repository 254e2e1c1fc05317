"""Size as a task: larger than 5 mm, or not.

Source: NTSSL (arXiv 2605.12320), 3 "Size estimation": diminutive (5 mm or less) against the rest.
"""

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.vocabulary import size_label
from polyplink.evaluate.probe import ProbeSettings

SIZE_PROBE = ProbeSettings(rate=1e-4)


def size_labels(data: DataSet) -> pl.DataFrame:
    """Polyps whose size is known.

    Args:
        data: The data set.

    Returns:
        procedure_id, polyp_id and label (bool): larger than 5 mm.

    Raises:
        PolyplinkError: If no polyp's size is known.
    """
    table = data.polyps.select(
        "procedure_id", "polyp_id", size_label(data.polyps["size_mm"]).alias("label")
    ).drop_nulls("label")
    if table.is_empty():
        raise PolyplinkError(
            "table polyps: column size_mm is empty, and the size task needs it",
            "import a data set that tells sizes",
        )
    return table.with_columns(pl.col("label").cast(pl.Boolean))
