"""What an encoder has seen, and whether it meets it again.

Compared are names, not keys: a corrected table or another import is still the same procedure.
"""

from collections.abc import Sequence

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.merged import known_overlap
from polyplink.data.vocabulary import plain_name
from polyplink.encoders import Seen


def _named(data: DataSet, procedures: Sequence[str]) -> list[tuple[str, str, str]]:
    """(data set, procedure, patient) of some procedures, in their order."""
    table = data.procedures.filter(pl.col("procedure_id").is_in(list(procedures)))
    return table.select("dataset", "procedure_id", "patient").rows()


def seen_by(data: DataSet, trained: Sequence[str], validated: Sequence[str]) -> Seen:
    """The record of what an encoder has seen, to travel with its weights."""
    return Seen(data.key, _named(data, trained), _named(data, validated))


def and_before(seen: Seen, before: Seen) -> Seen:
    """What an encoder has seen, with what the weights had seen that it started from."""
    return Seen(
        data=seen.data,
        trained=list(dict.fromkeys([*seen.trained, *before.trained])),
        validated=list(dict.fromkeys([*seen.validated, *before.validated])),
        datasets=list(dict.fromkeys([*seen.datasets, *before.datasets])),
    )


def meetings(seen: Seen, data: DataSet, procedures: Sequence[str]) -> list[tuple[str, str]]:
    """Procedures of a part that an encoder has met before, and how.

    Names of data sets are compared without case and dividers. A data set that is known to hold
    videos of one that was trained on is met whole, as its names tell nothing.

    Args:
        seen: From `seen_by`.
        data: The data set.
        procedures: The part.

    Returns:
        Procedure id and what was seen, in the data set's order.
    """
    known = [(plain_name(d), d, procedure, patient) for d, procedure, patient in _all(seen)]
    met = {(plain, procedure) for plain, _, procedure, _ in known}
    patients = {(plain, patient) for plain, _, _, patient in known}
    sets = sorted({d for _, d, _, _ in known} | set(seen.datasets))
    found = []
    pretrained = {plain_name(name) for name in seen.datasets}
    for dataset, procedure, patient in _named(data, procedures):
        plain = plain_name(dataset)
        shared = [why for d in sets if (why := known_overlap(dataset, d))]
        if (plain, procedure) in met:
            found.append((procedure, "the procedure itself"))
        elif (plain, patient) in patients:
            found.append((procedure, f"its patient {patient}"))
        elif plain in pretrained:
            found.append((procedure, f"{dataset} was in its pre-training"))
        elif shared:
            found.append((procedure, shared[0]))
    return found


def overlap(seen: Seen, data: DataSet, procedures: Sequence[str]) -> list[str]:
    """The procedures of `meetings` alone."""
    return [procedure for procedure, _ in meetings(seen, data, procedures)]


def guard(seen: Seen, data: DataSet, part: str) -> None:
    """Refuse to evaluate on procedures that an encoder has seen.

    Raises:
        PolyplinkError: Naming them.
    """
    met = meetings(seen, data, data.part(part))
    if met:
        raise PolyplinkError(
            f"the encoder was trained or validated on {len(met)} of these procedures, or saw "
            f"their patients: {', '.join(f'{name} ({why})' for name, why in met[:5])}",
            "evaluate on another --part",
        )


def _all(seen: Seen) -> list[tuple[str, str, str]]:
    return [*seen.trained, *seen.validated]
