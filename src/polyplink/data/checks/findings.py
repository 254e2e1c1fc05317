"""What the doctor finds, and the one way a table of offenders becomes a finding."""

from dataclasses import dataclass
from typing import Literal

import polars as pl

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # worst first


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or odd in a data set.

    Attributes:
        severity: "error" gives wrong results or stops a later stage; "warning" may; "note" is
            good to know.
        check: Short name of the check.
        what: What is wrong, with the first place.
        count: How often.
        mend: What to do about it.
    """

    severity: Severity
    check: str
    what: str
    count: int
    mend: str


def find(
    offenders: pl.DataFrame, severity: Severity, check: str, what: str, mend: str
) -> list[Finding]:
    """Turn a table of offenders into no or one finding.

    Args:
        offenders: One row for each offence.
        severity: How bad.
        check: Short name of the check.
        what: What is wrong; `{column}` stands for that column of the first row.
        mend: What to do about it.
    """
    if offenders.is_empty():
        return []
    first = what.format(**offenders.row(0, named=True))
    return [Finding(severity, check, first, offenders.height, mend)]
