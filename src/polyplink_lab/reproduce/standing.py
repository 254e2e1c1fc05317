"""Whether a published number can be reproduced exactly: which of its settings are published."""

import statistics
from collections.abc import Mapping
from typing import Literal

from polyplink_lab.reproduce.published_tables import Cell, PublishedTable

Standing = Literal["exact", "inferred", "unavailable"]
STANDINGS: tuple[Standing, ...] = ("exact", "inferred", "unavailable")
FOLDS = 19  # procedures, each left out once, over which standard deviations are printed
_LISTS = "the authors' lists of polyps (--split) replace a division by patient"
# Reasons by the start of a subject's name, after "ta384-"; the first match applies.
_INFERRED = (
    (
        ("dino", "vjepa", "endovit", "surgenet"),
        "pooling, image size and normalisation are not recorded",
    ),
    (
        ("endofm-supervised", "endofm-temporally", "endofm-intra"),
        "the thesis's program is not released: its normalisation, sampler and choice of the "
        "checkpoint are taken from temporally-aware counting's",
    ),
    (("endofm",), "pooling, image size and normalisation are not recorded"),
    (("sfe", "mve", "tpc"), "learning rate, epochs and batch are not recorded"),
    (("ntssl-fixed",), "the fixed temperature is not named; which procedures chose the checkpoint"),
    (
        ("ntssl", "supervised", "temporally-aware"),
        "which ten procedures chose the checkpoint, and whether training normalised its inputs, "
        "follow from the released commands alone",
    ),
)


def standing(cell: Cell) -> tuple[Standing, str]:
    """Whether all settings of a published number are known, and which are not.

    "exact": the number follows without any choice. "inferred": a setting or list that is neither in
    the text nor in the program was inferred, so that ours may differ because of it. "unavailable":
    the number cannot be reproduced, because it is a copying mistake or was measured on procedures
    that are not published.

    Args:
        cell: A cell of a published table.

    Returns:
        The standing and the reason, which is "" for exact.

    Example:
        >>> from polyplink_lab.reproduce.published_tables import published_table
        >>> standing(published_table("ta/1").cells[0])
        ('exact', '')
    """
    if "is a copying mistake" in cell.remark and "digit for digit" in cell.remark:
        return "unavailable", cell.remark
    if cell.measure.startswith(("val/", "test/")):
        return "unavailable", "the thesis does not publish its validation and test procedures"
    if cell.subject == "none" or cell.is_cost:
        return "exact", ""
    name = cell.subject.removeprefix("ta384-")
    reason = next(reason for starts, reason in _INFERRED if name.startswith(starts))
    if "clusterer is not said" in cell.remark:
        reason += "; which clusterer is not said"
    if cell.measure.startswith(("size/", "histology/")):
        reason += f"; {_LISTS}"
    return "inferred", reason


def reasons(table: PublishedTable) -> Mapping[tuple[Standing, str], int]:
    """Number of cells of a table by standing and reason.

    Example:
        >>> from polyplink_lab.reproduce.published_tables import published_table
        >>> [(kind, n) for (kind, _), n in reasons(published_table("ta/1")).items()]
        [('exact', 2), ('inferred', 4), ('inferred', 2), ('inferred', 2)]
    """
    counts: dict[tuple[Standing, str], int] = {}
    for cell in table.cells:
        counts[standing(cell)] = counts.get(standing(cell), 0) + 1
    return counts


def standard_errors(table: PublishedTable) -> Mapping[str, float]:
    """Standard error of each column's means over the 19 procedures, in the unit of the column.

    It is the median over rows of the printed standard deviation divided by the square root of 19;
    columns without standard deviations are left out.

    Example:
        >>> from polyplink_lab.reproduce.published_tables import published_table
        >>> errors = standard_errors(published_table("ta/2"))
        >>> {name: round(error, 3) for name, error in errors.items()}
        {'FR': 0.475, 'FPR': 0.013}
    """
    spreads: dict[str, list[float]] = {}
    for cell in table.cells:
        if cell.spread:
            spreads.setdefault(cell.column, []).append(float(cell.spread))
    return {name: statistics.median(spread) / FOLDS**0.5 for name, spread in spreads.items()}
