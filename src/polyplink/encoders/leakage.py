"""The leakage guard: procedures that an encoder has seen, and the refusal to evaluate on them.

Procedures are compared by name, not by content: a procedure remains the same after its table is
corrected or imported in another way.
"""

from collections.abc import Sequence

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import known_overlap, plain_name
from polyplink.encoders.weights import Seen


def _rows_of(data: DataSet, procedures: Sequence[str]) -> list[tuple[str, str, str]]:
    """(data set, procedure, patient) of some procedures, in the order of the table."""
    table = data.procedures.filter(pl.col("procedure_id").is_in(list(procedures)))
    return table.select("dataset", "procedure_id", "patient").rows()


def seen_by(data: DataSet, trained: Sequence[str], validated: Sequence[str], start: Seen) -> Seen:
    """The record of the training data of an encoder, stored in its weights.

    Args:
        data: The data set.
        trained: Procedures trained on.
        validated: Procedures validated on.
        start: Training data of the weights that the training started from.
    """
    seen = Seen(data.key, _rows_of(data, trained), _rows_of(data, validated))
    return seen.joined(start)


def seen_procedures(seen: Seen, data: DataSet, procedures: Sequence[str]) -> list[tuple[str, str]]:
    """Procedures of a part that an encoder has seen, with the reason.

    Names of data sets are compared without case and separators. A data set that is known to share
    videos with a data set of the training counts as seen completely, because its names do not
    identify the shared videos.

    Args:
        seen: Result of `seen_by`.
        data: The data set.
        procedures: The part.

    Returns:
        Procedure id and reason, in the order of the data set.
    """
    rows = [*seen.trained, *seen.validated]
    seen_names = {(plain_name(dataset), procedure) for dataset, procedure, _ in rows}
    patients = {(plain_name(dataset), patient) for dataset, _, patient in rows}
    sets = sorted({dataset for dataset, _, _ in rows} | set(seen.datasets))
    overlaps = []
    pretrained = {plain_name(name) for name in seen.datasets}
    for dataset, procedure, patient in _rows_of(data, procedures):
        plain = plain_name(dataset)
        reasons = (known_overlap(dataset, other) for other in sets)
        shared = [reason for reason in reasons if reason is not None]
        if (plain, procedure) in seen_names:
            overlaps.append((procedure, "the procedure itself"))
        elif (plain, patient) in patients:
            overlaps.append((procedure, f"its patient {patient}"))
        elif plain in pretrained:
            overlaps.append((procedure, f"{dataset} was in its pre-training"))
        elif shared:
            overlaps.append((procedure, shared[0]))
    return overlaps


def guard(seen: Seen, data: DataSet, part: str | Sequence[str]) -> None:
    """Refuse to evaluate on procedures (a part, or their ids) that an encoder has seen."""
    procedures = data.part(part) if isinstance(part, str) else part
    seen_here = seen_procedures(seen, data, procedures)
    if seen_here:
        first_five = ", ".join(f"{name} ({reason})" for name, reason in seen_here[:5])
        raise PolyplinkError(
            f"the encoder was trained or validated on {len(seen_here)} of these procedures, or saw "
            f"their patients: {first_five}",
            "evaluate on another --part",
        )
