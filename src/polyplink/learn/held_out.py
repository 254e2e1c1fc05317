"""What a training holds out: whole groups, such as all procedures of a patient.

Recipes name a distance between groups, and `train-detector` takes a share of them. The two choose
different groups of the same data, and stay as they are, so that trainings can be repeated.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from polyplink.core.errors import PolyplinkError
from polyplink.core.text import many

Name = TypeVar("Name")


def hold_out(patient_of: Mapping[str, str], every: int) -> tuple[list[str], list[str]]:
    """Split procedures into those to train on and those of each `every`-th patient to validate on.

    Args:
        patient_of: Procedure -> its patient. Patients are in the order of their first procedure by
            name; where each has one procedure, every `every`-th procedure is held out.
        every: 0 for none to validate on.

    Raises:
        PolyplinkError: If nothing is left to train on.

    Example:
        >>> hold_out({"a1": "a", "b1": "b", "a2": "a", "c1": "c"}, 2)
        (['a1', 'a2', 'c1'], ['b1'])
    """
    by_name = dict(sorted(patient_of.items()))
    held = _groups(by_name)[every - 1 :: every] if every else []
    training, held_out = _divide(by_name, held)
    if not training:
        raise PolyplinkError(
            f"{many(len(by_name), 'procedure')}, {len(held_out)} of them held out: none left for "
            "training",
            "name a larger --part, or give --set validation.every=0",
        )
    return list(training), list(held_out)


def hold_out_share(
    group_of: Mapping[Name, str], share: float
) -> tuple[dict[Name, str], dict[Name, str]]:
    """Divide names into those to train on and those to measure on, each with its group.

    The groups to measure on are evenly spread. There is at least one if there are two groups, and
    at least one group to train on.

    Args:
        group_of: Name -> its group: the patient of a procedure, the recording of an image.
        share: Share of the groups to measure on.

    Example:
        >>> hold_out_share({"a1": "a", "b1": "b", "a2": "a", "c1": "c"}, 0.3)
        ({'a1': 'a', 'a2': 'a', 'c1': 'c'}, {'b1': 'b'})
    """
    groups = _groups(group_of)
    count = min(round(share * len(groups)) or int(share > 0), max(len(groups) - 1, 0))
    held = [groups[(2 * k + 1) * len(groups) // (2 * count)] for k in range(count)]
    return _divide(group_of, held)


def _groups(group_of: Mapping[Name, str]) -> Sequence[str]:
    """The groups, each once, in the order of their first name."""
    return list(dict.fromkeys(group_of.values()))


def _divide(
    group_of: Mapping[Name, str], held: Collection[str]
) -> tuple[dict[Name, str], dict[Name, str]]:
    """The names of the groups that are not held out, and of those that are."""
    held = set(held)
    training = {name: group for name, group in group_of.items() if group not in held}
    return training, {name: group for name, group in group_of.items() if group in held}
