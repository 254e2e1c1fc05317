"""Splits that papers name: which procedures, checked to be all there.

Sources: thesis and TA (arXiv 2507.02493) for rc27, rc19, rc14neg, loo19 and ta384; NTSSL (arXiv
2605.12320) for rsp and rspp, whose own division was not published: ours is drawn anew, by patient.

NTSSL counts 161 procedures and 189 polyps in rsp, as here, and 195 and 210 in rspp after leaving
out what has no label. Under its map 7 polyps of rc19 (2 procedures) and 1 of SUN have none: of 200
and 228 that leaves 197 - k and 220 - k, k videos of Polyp-Size without pathology. No k gives both
of its numbers (2 the one, 10 the other), so that they cannot be matched.
"""

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.adenoma_maps import Maps, label_polyps
from polyplink.data.released import published_splits
from polyplink.data.splits import split_by_patient
from polyplink.data.vocabulary import ADENOMA

TA_IDENTITIES = {"real-colon": 85, "ldpolyp": 160, "sun": 100, "polypsset": 39}  # 384
RSP_IDENTITIES = {"real-colon": 47, "sun": 100, "polyp-size": 42}  # 189
RSPP_IDENTITIES = {**RSP_IDENTITIES, "polypsset": 39}  # 228, of which some have no label
SHARE = 0.7  # of the polyps of rsp and rspp are trained on

Part = Callable[[pl.DataFrame, pl.DataFrame, Maps], list[str]]


def _published(name: str) -> Part:
    def part(procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps) -> list[str]:
        del polyps, maps
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
            f"bring {', '.join(datasets)} into one data folder with `polyplink merge`",
        )
    kept = own.filter(pl.col("procedure_id").is_in(polyps["procedure_id"].implode()))
    return kept["procedure_id"].to_list()


def _whole(name: str, real_colon: str, identities: Mapping[str, int]) -> Part:
    """A part of REAL-Colon and all that others have, refused unless its polyps are all there."""

    def part(procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps) -> list[str]:
        others = [dataset for dataset in identities if dataset != "real-colon"]
        first = _published(real_colon)(procedures, polyps, maps)
        ids = first + _with_polyp(procedures, polyps, others)
        # REAL-Colon is known by its ids, under whatever name it is here.
        sets = dict(procedures.select("procedure_id", "dataset").rows())
        sets |= dict.fromkeys(first, "real-colon")
        mine = polyps.filter(pl.col("procedure_id").is_in(ids))
        found = [sets[procedure] for procedure in mine["procedure_id"]]
        for dataset, count in identities.items():
            if found.count(dataset) != count:
                raise PolyplinkError(
                    f"{name} has {count} identities of {dataset}; here are {found.count(dataset)}",
                    "import all of it (LDPolypVideo with --identity video)",
                )
        return ids

    return part


def _probe(name: str, identities: Mapping[str, int], side: int) -> Part:
    """A side of the division by patient, 70 to 30 by those polyps that have a label."""

    def part(procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps) -> list[str]:
        ids = _whole(name, "rc19", identities)(procedures, polyps, maps)
        rows = procedures.filter(pl.col("procedure_id").is_in(ids))
        mine = polyps.filter(pl.col("procedure_id").is_in(ids))
        labelled = mine.filter(_has_label(name, rows, mine, maps))
        rows = rows.filter(pl.col("procedure_id").is_in(labelled["procedure_id"].implode()))
        return split_by_patient(rows, labelled, share=SHARE)[side]

    return part


def _has_label(name: str, procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps) -> pl.Series:
    """Which polyps have what is probed: a size in rsp, adenoma or not in rspp.

    Raises:
        PolyplinkError: If none of a data set has, as its table of cases was not given.
    """
    column = "size_mm" if name == "rsp" else "histology_class"
    label = polyps["size_mm"] if name == "rsp" else label_polyps(procedures, polyps, maps)
    has = label.is_not_null()
    sets = dict(procedures.select("procedure_id", "dataset").rows())
    owners = pl.Series([sets[p] for p in polyps["procedure_id"]], dtype=pl.String)
    bare = [s for s in owners.unique(maintain_order=True) if not has.filter(owners == s).any()]
    if bare:
        raise PolyplinkError(
            f"no polyp of {bare[0]} has a {column} that {name} could use",
            "import it again with --cases TABLE",
        )
    return has


PROTOCOLS: Mapping[str, Part] = {
    "rc27": _published("rc27"),
    "rc19": _published("rc19"),
    "rc14neg": _published("rc14neg"),
    "loo19": _published("rc19"),
    "ta384": _whole("ta384", "rc27", TA_IDENTITIES),
    "rsp-train": _probe("rsp", RSP_IDENTITIES, 0),
    "rsp-test": _probe("rsp", RSP_IDENTITIES, 1),
    "rspp-train": _probe("rspp", RSPP_IDENTITIES, 0),
    "rspp-test": _probe("rspp", RSPP_IDENTITIES, 1),
}
_FOLDS = ("loo19", "loo19-train")  # followed by `:` and the procedure that is left out
NAMES = (*PROTOCOLS, *(f"{name}:PROCEDURE" for name in _FOLDS))


def protocol_part(
    name: str, procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps = ADENOMA
) -> list[str] | None:
    """Procedures of a part that papers name.

    - `rc27`, `rc19`, `rc14neg`: REAL-Colon, for training, evaluation and without polyp;
    - `loo19`: rc19, each of which is left out once; `loo19:003-010` the fold that leaves out
      003-010, which is it alone, and `loo19-train:003-010` the other 18;
    - `ta384`: the 384 identities that TA trains on: rc27, LDPolypVideo, SUN, PolypsSet;
    - `rsp-train`, `rsp-test`: rc19, SUN and Polyp-Size, 70 to 30 by polyp (size of a polyp);
    - `rspp-train`, `rspp-test`: these and PolypsSet (histology), without procedures all of whose
      polyps the map leaves out.

    Args:
        name: Its name.
        procedures: The table; REAL-Colon is known by the ids of its procedures, the others by
            the column dataset.
        polyps: The table.
        maps: Which words of histology are adenoma, for rspp.

    Returns:
        Procedure ids; None where there is no such part.

    Raises:
        PolyplinkError: If procedures, data sets, identities or labels of it are not there.
    """
    protocol, mark, held = name.partition(":")
    if mark and protocol in _FOLDS:
        return _fold(protocol, held, procedures, polyps, maps)
    part = PROTOCOLS.get(name)
    return None if part is None else part(procedures, polyps, maps)


def _fold(
    protocol: str, held: str, procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps
) -> list[str]:
    nineteen = _published("rc19")(procedures, polyps, maps)
    if held not in nineteen:
        raise PolyplinkError(
            f"{held!r} is none of the 19 procedures of loo19", f"choose among {', '.join(nineteen)}"
        )
    rest = next(rest for rest, left_out in leave_one_out(nineteen) if left_out == held)
    return [held] if protocol == "loo19" else rest


def leave_one_out(procedures: Sequence[str]) -> list[tuple[list[str], str]]:
    """Each procedure once as the one left out: (all others, it). `loo19` is this of `rc19`."""
    return [([p for p in procedures if p != held], held) for held in procedures]
