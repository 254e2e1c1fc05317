"""Splits that papers name: which procedures, checked to be all there.

Sources: thesis and TA (arXiv 2507.02493) for rc27, rc19, rc14neg, loo19 and ta384; NTSSL (arXiv
2605.12320) for rsp and rspp, whose own division was not published: ours is drawn anew, by patient.
"""

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from polyplink.data.released import published_splits
from polyplink.data.splits import split_by_patient
from polyplink.errors import PolyplinkError

TA_IDENTITIES = {"real-colon": 85, "ldpolyp": 160, "sun": 100, "polypsset": 39}  # 384
SHARE = 0.7  # of the polyps of rsp and rspp are trained on

Part = Callable[[pl.DataFrame, pl.DataFrame], list[str]]


def _published(name: str) -> Part:
    def part(procedures: pl.DataFrame, polyps: pl.DataFrame) -> list[str]:
        del polyps
        wanted = published_splits()[name]
        missing = sorted(set(wanted) - set(procedures["procedure_id"]))
        if missing:
            raise PolyplinkError(
                f"{name} is of {len(wanted)} procedures of REAL-Colon, of which {len(missing)} are "
                f"not here ({missing[0]}, ...)",
                "import all of them, or use a part of splits.json",
            )
        return wanted

    return part


def _with_polyp(
    procedures: pl.DataFrame, polyps: pl.DataFrame, datasets: Sequence[str]
) -> list[str]:
    """Procedures of some data sets that have a polyp; of REAL-Colon none."""
    own = procedures.filter(pl.col("dataset").is_in(list(datasets)))
    missing = [name for name in datasets if name not in set(own["dataset"])]
    if missing:
        raise PolyplinkError(
            f"no procedure of {missing[0]} is here, which the part is made of",
            f"bring {', '.join(datasets)} into one data folder",
        )
    kept = own.filter(pl.col("procedure_id").is_in(polyps["procedure_id"].implode()))
    return kept["procedure_id"].to_list()


def _ta384(procedures: pl.DataFrame, polyps: pl.DataFrame) -> list[str]:
    others = [name for name in TA_IDENTITIES if name != "real-colon"]
    ids = _published("rc27")(procedures, polyps) + _with_polyp(procedures, polyps, others)
    counts = (
        polyps.filter(pl.col("procedure_id").is_in(ids))
        .join(procedures.select("procedure_id", "dataset"), on="procedure_id")
        .group_by("dataset")
        .len()
    )
    for name, count in counts.iter_rows():
        if count != TA_IDENTITIES.get(name, count):
            raise PolyplinkError(
                f"ta384 has {TA_IDENTITIES[name]} identities of {name}; here are {count}",
                "import all of it (LDPolypVideo with --identity video)",
            )
    return ids


def _probe(datasets: Sequence[str], side: int) -> Part:
    def part(procedures: pl.DataFrame, polyps: pl.DataFrame) -> list[str]:
        ids = _published("rc19")(procedures, polyps) + _with_polyp(procedures, polyps, datasets)
        rows = procedures.filter(pl.col("procedure_id").is_in(ids))
        return split_by_patient(rows, polyps, share=SHARE)[side]

    return part


_RSP, _RSPP = ("sun", "polyp-size"), ("sun", "polyp-size", "polypsset")

PROTOCOLS: Mapping[str, Part] = {
    "rc27": _published("rc27"),
    "rc19": _published("rc19"),
    "rc14neg": _published("rc14neg"),
    "ta384": _ta384,
    "rsp-train": _probe(_RSP, 0),
    "rsp-test": _probe(_RSP, 1),
    "rspp-train": _probe(_RSPP, 0),
    "rspp-test": _probe(_RSPP, 1),
}


def protocol_part(name: str, procedures: pl.DataFrame, polyps: pl.DataFrame) -> list[str] | None:
    """Procedures of a part that papers name.

    - `rc27`, `rc19`, `rc14neg`: REAL-Colon, for training, evaluation and without polyp;
    - `ta384`: the 384 identities that TA trains on: rc27, LDPolypVideo, SUN, PolypsSet;
    - `rsp-train`, `rsp-test`: rc19, SUN and Polyp-Size, 70 to 30 by polyp (size of a polyp);
    - `rspp-train`, `rspp-test`: these and PolypsSet (histology).

    Args:
        name: Its name.
        procedures: The table; REAL-Colon is known by the ids of its procedures, the others by
            the column dataset.
        polyps: The table.

    Returns:
        Procedure ids; None where there is no such part.

    Raises:
        PolyplinkError: If procedures, data sets or identities of it are not there.
    """
    part = PROTOCOLS.get(name)
    return None if part is None else part(procedures, polyps)


def leave_one_out(procedures: Sequence[str]) -> list[tuple[list[str], str]]:
    """Each procedure once as the one left out: (all others, it). `loo19` is this of `rc19`."""
    return [([p for p in procedures if p != held], held) for held in procedures]
