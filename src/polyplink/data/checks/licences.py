"""Licence and form of access of the data sets, as their releases state them.

Sources: figshare 22202866 (REAL-Colon: its README says CC BY 4.0, the description in the release
CC BY-NC-SA 4.0); github.com/dashishi/LDPolypVideo-Benchmark; sundatabase.org;
doi:10.7910/DVN/FCBUOR (PolypsSet); figshare 28030115 (Polyp-Size).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from polyplink.data.checks.findings import Finding, find
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import SIMULATED


@dataclass(frozen=True)
class Licence:
    """What a data set may be used for, and how it is had.

    Attributes:
        terms: The licence, in a few words.
        access: How it is had.
        advice: What its user must mind.
    """

    terms: str
    access: str
    advice: str


LICENCES: Mapping[str, Licence] = {
    "real-colon": Licence(
        "CC BY 4.0 in its README, CC BY-NC-SA 4.0 in its description",
        "open download",
        "name the authors; until they say which holds, do not use it commercially",
    ),
    "ldpolyp": Licence(
        "none stated; for research", "open download", "ask the authors before any other use"
    ),
    "sun": Licence(
        "non-commercial research and education, no redistribution",
        "on request by e-mail",
        "pass on no part of it, images or tables, processed or not",
    ),
    "polypsset": Licence("CC0 1.0", "open download", "none needed"),
    "polyp-size": Licence("CC BY 4.0", "open download", "name the authors"),
}


def check_licences(data: DataSet) -> list[Finding]:
    """Licence and access of every data set that procedures are from.

    Args:
        data: The data set.

    Returns:
        A note for each set whose terms are known, and one for those whose terms are not.
    """
    sets = data.procedures.group_by("dataset", maintain_order=True).len()
    findings = []
    for name, count in sets.iter_rows():
        if licence := LICENCES.get(name):
            what = f"{name}: {licence.terms}; {licence.access}"
            findings.append(Finding("note", "licence", what, count, licence.advice))
    made = pl.col("dataset").str.starts_with(SIMULATED)
    return findings + find(
        sets.filter(~pl.col("dataset").is_in(list(LICENCES)) & ~made),
        "note",
        "licence not known",
        "{dataset}: its terms are not known here",
        "look them up before results or weights are passed on",
    )
