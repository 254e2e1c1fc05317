"""What an encoder has seen, and whether it meets it again.

Compared are names, not keys: a corrected table or another import is still the same procedure.
"""

from collections.abc import Sequence

import polars as pl

from polyplink.data import DataSet
from polyplink.encoders import Seen


def _named(data: DataSet, procedures: Sequence[str]) -> list[tuple[str, str, str]]:
    """(data set, procedure, patient) of some procedures, in their order."""
    table = data.procedures.filter(pl.col("procedure_id").is_in(list(procedures)))
    return table.select("dataset", "procedure_id", "patient").rows()


def seen_by(data: DataSet, trained: Sequence[str], validated: Sequence[str]) -> Seen:
    """The record of what an encoder has seen, to travel with its weights."""
    return Seen(data.key, _named(data, trained), _named(data, validated))


def overlap(seen: Seen, data: DataSet, procedures: Sequence[str]) -> list[str]:
    """Procedures of a part that an encoder was trained or validated on, or whose patient it saw.

    Args:
        seen: From `seen_by`.
        data: The data set.
        procedures: The part.

    Returns:
        Procedure ids, in the data set's order.
    """
    known = [*seen.trained, *seen.validated]
    met = {(dataset, procedure) for dataset, procedure, _ in known}
    patients = {(dataset, patient) for dataset, _, patient in known}
    return [
        procedure
        for dataset, procedure, patient in _named(data, procedures)
        if (dataset, procedure) in met or (dataset, patient) in patients
    ]
