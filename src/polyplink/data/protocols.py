"""Splits: the published parts, the rule and the random draw behind them, REAL-Colon's tables.

Sources: Biffi et al., Scientific Data 2024, 11:539, for the tables of REAL-Colon that are included
in this package (no images, no boxes; terms in `released/real_colon/README.md`); thesis and TA
(arXiv 2507.02493) for rc27, rc19, rc14neg, loo19 and ta384; NTSSL (arXiv 2605.12320) for rsp and
rspp. The split of rsp and rspp was not published; here it is drawn by patient.

NTSSL counts 161 procedures and 189 polyps in rsp, as here, and 195 and 210 in rspp after leaving
out polyps without a label. Under its map, 7 polyps of rc19 (2 procedures) and 1 of SUN have no
label: of 200 procedures and 228 polyps, 197 - k and 220 - k remain, where k is the number of
Polyp-Size videos without pathology. The published counts need k = 2 and k = 10, so they cannot both
be matched.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import polars as pl
from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import parse_json
from polyplink.core.errors import PolyplinkError, escape_control
from polyplink.core.text import many
from polyplink.data.vocabulary import ADENOMA, Maps, label_polyps

TA_IDENTITIES = {"real-colon": 85, "ldpolyp": 160, "sun": 100, "polypsset": 39}  # 384
RSP_IDENTITIES = {"real-colon": 47, "sun": 100, "polyp-size": 42}  # 189
RSPP_IDENTITIES = {**RSP_IDENTITIES, "polypsset": 39}  # 228, of which some have no label
LONGEST_NAME = 1000  # characters of an id or of the name of a part
SHARE = 0.7  # of the polyps of rsp and rspp, for training

_LAST_TRAIN = 8  # procedures up to this number in a study are for training
_NAME = re.compile(r"\d{3}-(\d{3})")
_PUBLISHED = {"rc27": "rc27", "rc19": "rc19", "rc14neg": "rc14neg", "loo19": "rc19"}
_OTHER = "give another part (--part; for a training --set part=NAME)"
_TPC = {"tpc-val": (9, 10), "tpc-test": (11, 15)}  # numbers of the procedures of rc19
_PROBED = {"rsp": RSP_IDENTITIES, "rspp": RSPP_IDENTITIES}
_FOLDS = ("loo19", "loo19-train")  # followed by `:` and the procedure that is left out
PROTOCOLS = (
    *_PUBLISHED,
    *_TPC,
    "ta384",
    "rsp-train",
    "rsp-test",
    "rspp-train",
    "rspp-test",
)
SPLITS = TypeAdapter(dict[str, list[str]])  # part -> ids, as read from any file
NAMES = (*PROTOCOLS, "loo19:PROCEDURE", "loo19-train:PROCEDURE")


def _released(name: str) -> str:
    path = files("polyplink.data") / "released" / "real_colon" / name
    return path.read_text(encoding="utf-8")


def video_info() -> pl.DataFrame:
    """One row for each of the 60 procedures of REAL-Colon, columns as released."""
    return pl.read_csv(_released("video_info.csv").encode())


def lesion_info() -> pl.DataFrame:
    """One row for each of the 132 lesions of REAL-Colon, as released (with `trasnverse`)."""
    return pl.read_csv(_released("lesion_info.csv").encode())


def positive_frames() -> pl.DataFrame:
    """Number of frames, of frames with a box, and frame size of each procedure of REAL-Colon.

    Columns: video_id, num_frames, n_polyp_frames, width, height (pixels). Counted by a third party;
    the sums equal the published totals.
    """
    return pl.read_csv(_released("positive_frames_per_video.csv").encode())


def published_splits() -> dict[str, list[str]]:
    """The parts of REAL-Colon that the papers use.

    Returns:
        Procedure ids of `rc27` (training), `rc19` (evaluation, leave-one-out), `rc14neg` (no
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
        with_lesion: The procedures with a lesion.

    Returns:
        `train` (a lesion, VVV up to 008), `eval` (a lesion, VVV from 009) and `negative` (no
        lesion), each in the order of `procedure_ids`; parts without procedures are left out. A
        name that is not `SSS-VVV` is in no part.

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


def patients_of(procedures: pl.DataFrame) -> dict[str, str]:
    """Patient of each procedure, as DATASET/PATIENT: two data sets may share a name."""
    rows = procedures.select("procedure_id", "dataset", "patient").rows()
    return {procedure: f"{dataset}/{patient}" for procedure, dataset, patient in rows}


def _shuffle(names: Iterable[str], seed: int) -> list[str]:
    """Names in an order that depends on nothing but the seed and the names, by a hash of each."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())


def split_by_patient(
    procedures: pl.DataFrame, polyps: pl.DataFrame, *, share: float = SHARE, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Split procedures in two by their number of polyps; no patient is on both sides.

    Patients are ordered by a hash of the seed and their names, and assigned to the first side as
    long as it stays within its share.

    Args:
        procedures: The table of procedures.
        polyps: The table of polyps; polyps of other procedures do not count.
        share: Share of the polyps for the first side.
        seed: Seed of the order.

    Returns:
        Procedure ids of the two sides, in the table's order.
    """
    counts = dict(polyps.group_by("procedure_id").len().iter_rows())
    owner = patients_of(procedures)
    weights: dict[str, int] = {}
    for procedure, patient in owner.items():
        weights[patient] = weights.get(patient, 0) + counts.get(procedure, 0)
    order = _shuffle(weights, seed)
    room = round(share * sum(weights.values()))
    first = set()
    for patient in order:
        if weights[patient] <= room:
            first.add(patient)
            room -= weights[patient]
    in_first = [procedure for procedure, patient in owner.items() if patient in first]
    in_second = [procedure for procedure, patient in owner.items() if patient not in first]
    return in_first, in_second


def split_by_shares(
    procedures: pl.DataFrame, shares: Mapping[str, float], seed: int = 0
) -> dict[str, list[str]]:
    """Split procedures into parts by their number; no patient is in two parts.

    Patients are ordered by their number of procedures and a hash of the seed and their names; each
    is assigned to the part that is furthest below its share.

    Args:
        procedures: The table of procedures.
        shares: Part -> its share of the procedures, above 0; the sum is 1.
        seed: Seed of the order.

    Returns:
        Part -> procedure ids, in the table's order.

    Raises:
        PolyplinkError: If there are fewer patients than parts.

    Example:
        >>> table = pl.DataFrame({"procedure_id": list("abcd"), "patient": list("ppqr")})
        >>> table = table.with_columns(dataset=pl.lit("x"))
        >>> split_by_shares(table, {"train": 0.5, "test": 0.5})
        {'train': ['a', 'b'], 'test': ['c', 'd']}
    """
    patient_of = patients_of(procedures)
    weights = Counter(patient_of.values())
    if len(weights) < len(shares):
        raise PolyplinkError(
            f"{many(len(shares), 'part')} for {many(len(weights), 'patient')}: a part would be "
            "empty",
            "give fewer parts with --shares",
        )
    # Patients with many procedures first, so that the others even out the shares.
    order = _shuffle(weights, seed)
    order.sort(key=lambda key: -weights[key])
    n_free = {part: share * len(patient_of) for part, share in shares.items()}
    part_of: dict[str, str] = {}
    for remaining, patient in zip(range(len(order), 0, -1), order, strict=True):
        empty = [part for part in shares if part not in part_of.values()]
        part = max(empty if remaining == len(empty) else shares, key=n_free.__getitem__)
        part_of[patient] = part
        n_free[part] -= weights[patient]
    return {
        part: [procedure for procedure, patient in patient_of.items() if part_of[patient] == part]
        for part in shares
    }


def read_splits(folder: Path) -> dict[str, list[str]]:
    """Part -> procedure ids of a data folder; empty if it is not divided.

    Raises:
        PolyplinkError: If splits.json is not JSON, and see `checked_parts`.
    """
    path, hint = folder / "splits.json", "import again"
    if not path.is_file():
        return {}
    return checked_parts(parse_json(path.read_bytes(), str(path), hint), path.name, hint)


def checked_parts(splits: object, source: str, hint: str) -> dict[str, list[str]]:
    """Part -> procedure ids, as read from a file.

    Args:
        splits: The content of the file.
        source: Name of the file, for the message.
        hint: How to fix a file of another content.

    Raises:
        PolyplinkError: If it is no such mapping, or the name of a part is empty, too long or has
            control characters.
    """
    try:
        parts = SPLITS.validate_python(splits)
    except ValidationError:
        raise PolyplinkError(
            f"{source} is not a mapping of parts to lists of procedure ids", hint
        ) from None
    for part in parts:
        if part != escape_control(part) or not (0 < len(part) <= LONGEST_NAME):
            raise PolyplinkError(
                f"{source}: {part!r} is not a valid name of a part",
                f"write 1 to {LONGEST_NAME} characters without control characters",
            )
    return parts


def check_splits(
    splits: Mapping[str, Sequence[str]], procedures: pl.DataFrame, source: str
) -> None:
    """Check that parts have free names and known procedures, and share no procedure and no patient.

    Args:
        splits: Part -> procedure ids.
        procedures: The table of procedures.
        source: Name of the file, for the message.

    Raises:
        PolyplinkError: If a check fails; names the procedure or patient, and the parts.
    """
    reserved = next((part for part in splits if part == "all" or part in PROTOCOLS), None)
    if reserved is not None:
        raise PolyplinkError(
            f"{source}: {reserved!r} names "
            + ("all procedures" if reserved == "all" else "a published part"),
            "give the part another name",
        )
    owner = patients_of(procedures)
    part_of_procedure: dict[str, str] = {}
    part_of_patient: dict[str, str] = {}
    for part, ids in splits.items():
        numbers = Counter(ids)
        for name in ids:
            if name not in owner:
                raise PolyplinkError(
                    f"{source}: part {part} names {name!r}, which is not a procedure of the data",
                    "correct the name",
                )
            # A procedure in two parts is named as itself, any other one as its patient.
            first_part = part_of_patient.setdefault(owner[name], part)
            in_another_part = part_of_procedure.setdefault(name, part) != part
            is_repeated = in_another_part or numbers[name] > 1
            if is_repeated or first_part != part:
                subject = f"procedure {name}" if is_repeated else f"patient {owner[name]}"
                raise PolyplinkError(
                    f"{source}: {subject} is in {part} and in {first_part}",
                    "leave each patient in one part",
                )


def protocol_part(
    name: str, procedures: pl.DataFrame, polyps: pl.DataFrame, maps: Maps = ADENOMA
) -> list[str] | None:
    """Procedures of a published part.

    - `rc27`, `rc19`, `rc14neg`: REAL-Colon, for training, for evaluation, and without polyp (see
      `published_splits`);
    - `loo19`: rc19 for leave-one-out; `loo19:003-010` is the held-out procedure of a fold, and
      `loo19-train:003-010` the other 18;
    - `tpc-val`, `tpc-test`: rc19 as divided in TPC's public code, numbers 009 and 010 (16 polyps),
      and from 011 on (31 polyps); the division in the paper differs;
    - `ta384`: the 384 identities of TA's training: rc27, LDPolypVideo, SUN, PolypsSet;
    - `rsp-train`, `rsp-test`: rc19, SUN and Polyp-Size, 70 to 30 by polyp (size of a polyp);
    - `rspp-train`, `rspp-test`: these and PolypsSet (histology), without procedures for which the
      map leaves out all polyps.

    Args:
        name: Name of the part.
        procedures: The table of procedures; REAL-Colon is recognised by the ids of its procedures,
            the others by the column dataset.
        polyps: The table of polyps.
        maps: Maps of histology terms to adenoma, for rspp.

    Returns:
        Procedure ids; None if there is no such part.

    Raises:
        PolyplinkError: If procedures, data sets, identities or labels of the part are missing.
    """
    # Parts of REAL-Colon alone.
    protocol, mark, held_out = name.partition(":")
    if mark and protocol in _FOLDS:
        nineteen = _real_colon_part("rc19", procedures)
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
        return _real_colon_part(_PUBLISHED[name], procedures)
    if name in _TPC:
        first, last = _TPC[name]
        nineteen = _real_colon_part("rc19", procedures)
        return [procedure for procedure in nineteen if first <= int(procedure[-3:]) <= last]

    # Parts of REAL-Colon and other data sets; a probe's part is divided by polyp.
    if name == "ta384":
        return _add_other_sets(name, "rc27", TA_IDENTITIES, procedures, polyps)
    protocol, _, side = name.partition("-")
    ids = _add_other_sets(protocol, "rc19", _PROBED[protocol], procedures, polyps)
    owner = procedures.select("procedure_id", "dataset")
    protocol_polyps = polyps.filter(pl.col("procedure_id").is_in(ids))
    protocol_polyps = protocol_polyps.join(
        owner, on="procedure_id", how="left", maintain_order="left"
    )
    if protocol == "rsp":  # the label to predict is the size
        column, labels = "size_mm", protocol_polyps["size_mm"]
    else:  # adenoma or not
        column, labels = "histology_class", label_polyps(procedures, protocol_polyps, maps)
    has_label = labels.is_not_null()
    for dataset in protocol_polyps["dataset"].unique(maintain_order=True):
        if not has_label.filter(protocol_polyps["dataset"] == dataset).any():
            raise PolyplinkError(
                f"no polyp of {dataset} has a {column} that {protocol} could use",
                "import it again with --cases TABLE",
            )
    labelled = protocol_polyps.filter(has_label)
    rows = procedures.filter(pl.col("procedure_id").is_in(labelled["procedure_id"].implode()))
    train, test = split_by_patient(rows, labelled, share=SHARE)
    return test if side == "test" else train


def _real_colon_part(name: str, procedures: pl.DataFrame) -> list[str]:
    """The procedures of a published part of REAL-Colon; an error if one is missing."""
    names = published_splits()[name]
    missing = sorted(set(names) - set(procedures["procedure_id"]))
    if missing:
        raise PolyplinkError(
            f"{name} consists of {len(names)} procedures of REAL-Colon, of which {len(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing ({', '.join(missing[:3])}"
            f"{', ...' * (len(missing) > 3)})",
            f"import all of them, or {_OTHER}",
        )
    return names


def _add_other_sets(
    name: str,
    real_colon: str,
    identities: Mapping[str, int],
    procedures: pl.DataFrame,
    polyps: pl.DataFrame,
) -> list[str]:
    """A part of REAL-Colon and all procedures with a polyp of other sets; checks the counts."""
    first = _real_colon_part(real_colon, procedures)
    joined: Sequence[str] = [dataset for dataset in identities if dataset != "real-colon"]
    of_others = procedures.filter(pl.col("dataset").is_in(joined))
    missing = [dataset for dataset in joined if dataset not in set(of_others["dataset"])]
    if missing:
        raise PolyplinkError(
            f"the part needs procedures of {missing[0]}, but there are none",
            f"merge {', '.join(joined)} into one data folder with `polyplink merge`, or {_OTHER}",
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
                f"{name} has {count} identities of {dataset}, not {datasets.count(dataset)}",
                "import all of it (LDPolypVideo with --identity video)",
            )
    return ids
