"""The split of REAL-Colon that the counting papers use, as a rule.

Source: thesis, list of the leave-one-out videos; TA (arXiv 2507.02493) and NTSSL (arXiv
2605.12320) train on the same 27 procedures and evaluate on the same 19.
"""

import re
from collections.abc import Collection, Iterable

LAST_TRAIN = 8  # the highest number inside a study that is training

_NAME = re.compile(r"\d{3}-(\d{3})")


def split_by_rule(
    procedure_ids: Iterable[str], with_lesion: Collection[str]
) -> dict[str, list[str]]:
    """Split procedures named `SSS-VVV` (study, number).

    Args:
        procedure_ids: Names of the procedures.
        with_lesion: Those of them that have a lesion.

    Returns:
        `train` (a lesion, VVV up to 008), `eval` (a lesion, VVV from 009) and `negative` (no
        lesion), in the given order; a part without procedures is absent. A name that is not
        `SSS-VVV` has no number to go by and is in no part.
    """
    parts: dict[str, list[str]] = {"train": [], "eval": [], "negative": []}
    for procedure_id in procedure_ids:
        if name := _NAME.fullmatch(procedure_id):
            seen = "train" if int(name.group(1)) <= LAST_TRAIN else "eval"
            parts[seen if procedure_id in with_lesion else "negative"].append(procedure_id)
    return {part: ids for part, ids in parts.items() if ids}
