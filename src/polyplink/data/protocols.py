"""Splits: the parts that papers name, the rule and the draw behind them, the tables of REAL-Colon.

Sources: Biffi et al., Scientific Data 2024, 11:539, for the tables of REAL-Colon that are included
in this package (no images, no boxes; terms in `released/real_colon/README.md`); thesis and TA
(arXiv 2507.02493) for rc27, rc19, rc14neg, loo19 and ta384; NTSSL (arXiv 2605.12320) for rsp and
rspp, whose split was not published: ours is drawn by patient.

NTSSL counts 161 procedures and 189 polyps in rsp, as here, and 195 and 210 in rspp after leaving
out what has no label. Under its map 7 polyps of rc19 (2 procedures) and 1 of SUN have none: of 200
and 228 that leaves 197 - k and 220 - k, k videos of Polyp-Size without pathology. No k gives both
of its numbers (2 the one, 10 the other), so that they cannot be matched.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.vocabulary import ADENOMA, Maps, label_polyps

TA_IDENTITIES = {"real-colon": 85, "ldpolyp": 160, "sun": 100, "polypsset": 39}  # 384
RSP_IDENTITIES = {"real-colon": 47, "sun": 100, "polyp-size": 42}  # 189
RSPP_IDENTITIES = {**RSP_IDENTITIES, "polypsset": 39}  # 228, of which some have no label
SHARE = 0.7  # of the polyps of rsp and rspp are trained on

_LAST_TRAIN = 8  # the highest number inside a study that is training
_NAME = re.compile(r"\d{3}-(\d{3})")
_PUBLISHED = {"rc27": "rc27", "rc19": "rc19", "rc14neg": "rc14neg", "loo19": "rc19"}
_OTHER = "name another part (--part; of a training --set part=NAME)"
_TPC = {"tpc-val": (9, 10), "tpc-test": (11, 15)}  # numbers of the procedures of rc19
_PROBED = {"rsp": RSP_IDENTITIES, "rspp": RSPP_IDENTITIES}
_FOLDS = ("loo19", "loo19-train")  # followed by `:` and the procedure that is left out
PROTOCOLS = (
    *_PUBLISHED,
    *_TPC,
    "ta384",
    *(f"{name}-{side}" for name in _PROBED for side in ("train", "test")),
)
NAMES = (*PROTOCOLS, *(f"{name}:PROCEDURE" for name in _FOLDS))


def _released(name: str) -> str:
    path = files("polyplink.data") / "released" / "real_colon" / name
    return path.read_text(encoding="utf-8")


def video_info() -> pl.DataFrame:
    """One row for each of the 60 procedures of REAL-Colon, columns as released."""
    return pl.read_csv(_released("video_info.csv").encode())


def lesion_info() -> pl.DataFrame:
    """One row for each of its 132 lesions, columns as released (`size [mm]`, `trasnverse`)."""
    return pl.read_csv(_released("lesion_info.csv").encode())


def positive_frames() -> pl.DataFrame:
    """For each procedure of REAL-Colon its frames, frames with a box, and frame size in pixels.

    Columns: video_id, num_frames, n_polyp_frames, width, height. Counted by a third party; the
    sums are the published totals.
    """
    return pl.read_csv(_released("positive_frames_per_video.csv").encode())


def published_splits() -> dict[str, list[str]]:
    """The parts of REAL-Colon that the papers use.

    Returns:
        Procedure ids of `rc27` (training), `rc19` (evaluation, leave one out), `rc14neg` (no
        lesion) and `eval19_with_2_or_more` (those of `rc19` with two lesions or more).

    Example:
        >>> [len(published_splits()[part]) for part in ("rc27", "rc19", "rc14neg")]
        [27, 19, 14]
    """
    splits: dict[str, list[str]] = json.loads(_released("splits.json"))
    return splits


def split_by_rule(
    procedure_ids: Iterable[str], with_lesion: Collection[str]
) -> dict[str, list[str]]:
    """Split procedures named `SSS-VVV` (study, number) as the counting papers split REAL-Colon.

    Args:
        procedure_ids: Names of the procedures.
        with_lesion: Those of them that have a lesion.

    Returns:
        `train` (a lesion, VVV up to 008), `eval` (a lesion, VVV from 009) and `negative` (no
        lesion), in the given order; a part without procedures is absent. A name that is not
        `SSS-VVV` has no number and is in no part.

    Example:
        >>> split_by_rule(["001-001", "001-009", "001-010"], {"001-001", "001-009"})
        {'train': ['001-001'], 'eval': ['001-009'], 'negative': ['001-010']}
    """
    parts: dict[str, list[str]] = {"train": [], "eval": [], "negative": []}
    for procedure_id in procedure_ids:
        if name := _NAME.fullmatch(procedure_id):
            side = "train" if int(name.group(1)) <= _LAST_TRAIN else "eval"
            parts[side if procedure_id in with_lesion else "negative"].append(procedure_id)
    return {part: ids for part, ids in parts.items() if ids}


def split_by_patient(
    procedures: pl.DataFrame, polyps: pl.DataFrame, *, share: float = SHARE, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Split procedures in two by their number of polyps; no patient is in both.

    Patients come in an order given by a hash of the seed and their names, and go to the first side
    as long as it stays within its share.

    Args:
        procedures: The table.
        polyps: The table; polyps of other procedures do not count.
        share: Of the polyps, for the first side.
        seed: Another one, another split.

    Returns:
        Procedure ids of the two sides, in the table's order.
    """
    counts = dict(polyps.group_by("procedure_id").len().iter_rows())
    weights: dict[str, int] = {}
    rows = procedures.select("procedure_id", "dataset", "patient").rows()
    for procedure, dataset, patient in rows:
        key = f"{dataset}/{patient}"
        weights[key] = weights.get(key, 0) + counts.get(procedure, 0)
    order = sorted(weights, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())
    room = round(share * sum(weights.values()))
    first = set()
    for patient in order:
        if weights[patient] <= room:
            first.add(patient)
            room -= weights[patient]
    sides: tuple[list[str], list[str]] = ([], [])
    for procedure, dataset, patient in rows:
        sides[f"{dataset}/{patient}" not in first].append(procedure)
    return sides


def split_by_shares(
    procedures: pl.DataFrame, shares: Mapping[str, float], seed: int = 0
) -> dict[str, list[str]]:
    """Split procedures into parts by their number; no patient is in two.

    Patients come in an order given by a hash of the seed and their names, each to the part that
    is furthest below its share.

    Args:
        procedures: The table.
        shares: Part to its share of the procedures, above 0; their sum is 1.
        seed: Another one, another split.

    Returns:
        Part to procedure ids, in the table's order.

    Raises:
        PolyplinkError: If there are fewer patients than parts.

    Example:
        >>> table = pl.DataFrame({"procedure_id": list("abcd"), "patient": list("ppqr")})
        >>> table = table.with_columns(dataset=pl.lit("x"))
        >>> split_by_shares(table, {"train": 0.5, "test": 0.5})
        {'train': ['a', 'b'], 'test': ['c', 'd']}
    """
    rows = procedures.select("procedure_id", "dataset", "patient").rows()
    owner = {procedure: f"{dataset}/{patient}" for procedure, dataset, patient in rows}
    weights = Counter(owner.values())
    PolyplinkError.unless(
        len(weights) >= len(shares),
        f"{len(shares)} parts of {len(weights)} patients: one would be empty",
        "give fewer parts with --shares",
    )
    # The largest patients first, so that the small ones even out the shares.
    order = sorted(weights, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())
    order.sort(key=lambda key: -weights[key])
    room = {part: share * len(rows) for part, share in shares.items()}
    chosen: dict[str, str] = {}
    for remaining, patient in zip(range(len(order), 0, -1), order, strict=True):
        empty = [part for part in shares if part not in chosen.values()]
        part = max(empty if remaining == len(empty) else shares, key=room.__getitem__)
        chosen[patient] = part
        room[part] -= weights[patient]
    return {
        part: [procedure for procedure, patient in owner.items() if chosen[patient] == part]
        for part in shares
    }


def check_splits(splits: object, procedures: pl.DataFrame, source: str) -> None:
    """Refuse parts that name unknown procedures, or share a procedure or a patient.

    Args:
        splits: Part to procedure ids, as read from a file.
        procedures: The table.
        source: Where the parts are from, for the message.

    Raises:
        PolyplinkError: Naming the procedure or patient, and the parts.
    """
    if not isinstance(splits, dict) or not all(
        isinstance(ids, list) and all(isinstance(name, str) for name in ids)
        for ids in splits.values()
    ):
        raise PolyplinkError(
            f"{source} is not a mapping of parts to lists of procedure ids",
            'write {"train": ["001-001"], "test": ["001-002"]}',
        )
    rows = procedures.select("procedure_id", "dataset", "patient").rows()
    owner = {procedure: (dataset, patient) for procedure, dataset, patient in rows}
    part_of: dict[object, str] = {}
    for part, ids in splits.items():
        for name in ids:
            if name not in owner:
                raise PolyplinkError(
                    f"{source}: part {part} names {name!r}, which is not a procedure of the data",
                    "correct the name",
                )
            repeated = part_of.setdefault(name, part) != part or ids.count(name) > 1
            if repeated or part_of.setdefault(owner[name], part) != part:
                subject = f"procedure {name}" if repeated else f"patient {owner[name][1]}"
                raise PolyplinkError(
                    f"{source}: {subject} is in {part} and in {part_of.get(owner[name], part)}",
                    "leave each patient in one part",
                )


def protocol_part(
    name: str, procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps = ADENOMA
) -> list[str] | None:
    """Procedures of a part that papers name.

    - `rc27`, `rc19`, `rc14neg`: REAL-Colon, for training, evaluation and without polyp;
    - `loo19`: rc19, each of which is left out once; `loo19:003-010` the fold that leaves out
      003-010, which is it alone, and `loo19-train:003-010` the other 18;
    - `tpc-val`, `tpc-test`: rc19 as TPC's public program divides it, numbers 009 and 010 (16
      polyps), and from 011 on (31 polyps); its paper's own division differs;
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
        Procedure ids; None if there is no such part.

    Raises:
        PolyplinkError: If procedures, data sets, identities or labels of it are missing.
    """
    protocol, mark, held_out = name.partition(":")
    if mark and protocol in _FOLDS:
        nineteen = _of_real_colon("rc19", procedures)
        if held_out not in nineteen:
            raise PolyplinkError(
                f"{held_out!r} is not one of the 19 procedures of loo19",
                f"choose among {', '.join(nineteen)}",
            )
        others = [procedure for procedure in nineteen if procedure != held_out]
        return [held_out] if protocol == "loo19" else others
    if name not in PROTOCOLS:
        return None
    if name in _PUBLISHED:
        return _of_real_colon(_PUBLISHED[name], procedures)
    if name in _TPC:
        first, last = _TPC[name]
        nineteen = _of_real_colon("rc19", procedures)
        return [procedure for procedure in nineteen if first <= int(procedure[-3:]) <= last]
    if name == "ta384":
        return _with_others(name, "rc27", TA_IDENTITIES, procedures, polyps)
    protocol, _, side = name.partition("-")
    ids = _with_others(protocol, "rc19", _PROBED[protocol], procedures, polyps)
    owner = procedures.select("procedure_id", "dataset")
    protocol_polyps = polyps.filter(pl.col("procedure_id").is_in(ids))
    protocol_polyps = protocol_polyps.join(
        owner, on="procedure_id", how="left", maintain_order="left"
    )
    # What is probed: the size in rsp, adenoma or not in rspp.
    column = "size_mm" if protocol == "rsp" else "histology_class"
    has = (
        protocol_polyps["size_mm"]
        if protocol == "rsp"
        else label_polyps(procedures, protocol_polyps, maps)
    ).is_not_null()
    for dataset in protocol_polyps["dataset"].unique(maintain_order=True):
        if not has.filter(protocol_polyps["dataset"] == dataset).any():
            raise PolyplinkError(
                f"no polyp of {dataset} has a {column} that {protocol} could use",
                "import it again with --cases TABLE",
            )
    labelled = protocol_polyps.filter(has)
    rows = procedures.filter(pl.col("procedure_id").is_in(labelled["procedure_id"].implode()))
    return split_by_patient(rows, labelled, share=SHARE)[side == "test"]


def _of_real_colon(name: str, procedures: pl.DataFrame) -> list[str]:
    names = published_splits()[name]
    missing = sorted(set(names) - set(procedures["procedure_id"]))
    if missing:
        raise PolyplinkError(
            f"{name} is of {len(names)} procedures of REAL-Colon, of which {len(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not here ({', '.join(missing[:3])}"
            f"{', ...' * (len(missing) > 3)})",
            f"import all of them, or {_OTHER}",
        )
    return names


def _with_others(
    name: str,
    real_colon: str,
    identities: Mapping[str, int],
    procedures: pl.DataFrame,
    polyps: pl.DataFrame,
) -> list[str]:
    """A part of REAL-Colon, and of other sets all procedures with a polyp; counts are checked."""
    first = _of_real_colon(real_colon, procedures)
    joined: Sequence[str] = [dataset for dataset in identities if dataset != "real-colon"]
    of_others = procedures.filter(pl.col("dataset").is_in(joined))
    missing = [dataset for dataset in joined if dataset not in set(of_others["dataset"])]
    if missing:
        raise PolyplinkError(
            f"no procedure of {missing[0]} is here, which the part is made of",
            f"bring {', '.join(joined)} into one data folder with `polyplink merge`, or {_OTHER}",
        )
    with_polyp = of_others.filter(pl.col("procedure_id").is_in(polyps["procedure_id"].implode()))
    ids = first + with_polyp["procedure_id"].to_list()
    # REAL-Colon is recognised by its ids, whatever the name of the data set.
    sets = dict(procedures.select("procedure_id", "dataset").rows())
    sets |= dict.fromkeys(first, "real-colon")
    part_polyps = polyps.filter(pl.col("procedure_id").is_in(ids))
    datasets = [sets[procedure] for procedure in part_polyps["procedure_id"]]
    for dataset, count in identities.items():
        if datasets.count(dataset) != count:
            raise PolyplinkError(
                f"{name} has {count} identities of {dataset}; here are {datasets.count(dataset)}",
                "import all of it (LDPolypVideo with --identity video)",
            )
    return ids
