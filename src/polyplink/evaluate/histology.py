"""Histology as a task: adenoma, or not.

Source: NTSSL (arXiv 2605.12320), 3 "Histology classification". What counts as adenoma is a matter
of each data set's words; unknown ones and invasive cancer are left out.
"""

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.evaluate.probe import ProbeSettings

HISTOLOGY_PROBE = ProbeSettings(rate=1e-5)


def histology_labels(data: DataSet) -> pl.DataFrame:
    """Polyps whose class is known and part of the task.

    Args:
        data: The data set.

    Returns:
        procedure_id, polyp_id and label (bool): adenoma.

    Raises:
        PolyplinkError: If no polyp's class is known, or a word has no label.
    """
    labels = data.adenoma_labels()
    table = data.polyps.select("procedure_id", "polyp_id", labels.alias("label"))
    table = table.drop_nulls("label")
    if table.is_empty():
        raise PolyplinkError(
            "table polyps: column histology_class is empty or left out of the task",
            "import a data set that tells histology, or with another map",
        )
    return table.with_columns(pl.col("label").cast(pl.Boolean))
