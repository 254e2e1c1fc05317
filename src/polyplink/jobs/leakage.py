"""What an encoder has seen, and whether it meets it again.

Compared are names, not keys: a corrected table or a lenient import is still the same procedure.
"""

from collections.abc import Sequence

import polars as pl

from polyplink.encoders import Seen
from polyplink.tracklets import Prepared


def _named(prepared: Prepared, procedures: Sequence[str]) -> list[tuple[str, str, str]]:
    """(data set, procedure, patient) of some procedures, in their order."""
    table = prepared.data.procedures.filter(pl.col("procedure_id").is_in(list(procedures)))
    return table.select("dataset", "procedure_id", "patient").rows()


def seen_by(prepared: Prepared, trained: Sequence[str], validated: Sequence[str]) -> Seen:
    """The record of what an encoder has seen, to travel with its weights."""
    return Seen(prepared.data.key, _named(prepared, trained), _named(prepared, validated))


def overlap(seen: Seen, prepared: Prepared) -> list[str]:
    """Procedures of a part that an encoder was trained or validated on, or whose patient it saw.

    Args:
        seen: From `seen_by`.
        prepared: The part.

    Returns:
        Procedure ids, in the part's order.
    """
    known = [*seen.trained, *seen.validated]
    procedures = {(dataset, procedure) for dataset, procedure, _ in known}
    patients = {(dataset, patient) for dataset, _, patient in known}
    return [
        procedure
        for dataset, procedure, patient in _named(prepared, prepared.procedures)
        if (dataset, procedure) in procedures or (dataset, patient) in patients
    ]
