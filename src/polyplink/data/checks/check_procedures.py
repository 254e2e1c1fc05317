"""The doctor's checks of procedures: what they hold, and that no two parts or sets share them."""

import polars as pl

from polyplink.data.checks.findings import Finding, find
from polyplink.data.merged import overlaps
from polyplink.data.tables import DataSet

_ONE_PART = "leave it in one part: results on the other would be flattered"

_OTHER_NAMES = "keep them in one part: the same video goes by two names, which no check can match"


def check_contents(data: DataSet) -> list[Finding]:
    """Procedures and polyps that have less than one may think.

    Args:
        data: The data set.

    Returns:
        Polyps without a box (warning); procedures without a box, without a polyp, and with one
        polyp alone (notes).
    """
    boxes, polyps = data.detections, data.polyps
    count = polyps.group_by("procedure_id").len("polyps")
    procedures = data.procedures.join(
        count, on="procedure_id", how="left", maintain_order="left"
    ).with_columns(pl.col("polyps").fill_null(0))
    return [
        *find(
            polyps.join(boxes, on=["procedure_id", "polyp_id"], how="anti", maintain_order="left"),
            "warning",
            "polyp without box",
            "procedure {procedure_id}: no box of {polyp_id}",
            "annotate it, or leave its row out: it is counted but cannot be found",
        ),
        *find(
            procedures.join(boxes, on="procedure_id", how="anti", maintain_order="left"),
            "note",
            "procedure without box",
            "procedure {procedure_id} has no box and {polyps} polyps",
            "none needed where no polyp was seen",
        ),
        *find(
            procedures.filter(pl.col("polyps") == 0),
            "note",
            "procedure without polyp",
            "procedure {procedure_id} has no polyp",
            "none needed: it is left out of fragmentation rates",
        ),
        *find(
            procedures.filter(pl.col("polyps") == 1),
            "note",
            "procedure with one polyp",
            "procedure {procedure_id} has one polyp",
            "none needed: it is left out of false positive rates, which need two",
        ),
    ]


def check_splits(data: DataSet) -> list[Finding]:
    """Leakage between the parts of the splits.

    Args:
        data: The data set.

    Returns:
        Procedures or patients in more than one part, and names of no procedure (errors);
        procedures in no part, where there are parts (note).
    """
    members = pl.DataFrame(
        [(part, name) for part, names in data.splits.items() for name in names],
        schema={"part": pl.String, "procedure_id": pl.String},
        orient="row",
    )
    # Two data sets may call a patient by one name.
    patients = data.procedures.select("procedure_id", "dataset", "patient")
    known = members.join(patients, on="procedure_id", how="inner", maintain_order="left")
    twice = _in_several_parts(members, ["procedure_id"])
    # A procedure in two parts is told once, not again as its patient.
    single = known.join(twice, on="procedure_id", how="anti", maintain_order="left")
    unsplit = patients.join(members, on="procedure_id", how="anti", maintain_order="left")
    return [
        *find(
            twice,
            "error",
            "procedure in two parts",
            "splits.json: procedure {procedure_id} is in {parts}",
            _ONE_PART,
        ),
        *find(
            _in_several_parts(single, ["dataset", "patient"]),
            "error",
            "patient in two parts",
            "splits.json: patient {patient} is in {parts}",
            _ONE_PART,
        ),
        *find(
            members.join(patients, on="procedure_id", how="anti", maintain_order="left"),
            "error",
            "unknown procedure in a part",
            "splits.json: part {part} names {procedure_id}, which is in no row of procedures",
            "correct the name, or take it out of the part",
        ),
        *find(
            unsplit if data.splits else unsplit.clear(),
            "note",
            "procedure in no part",
            "splits.json: procedure {procedure_id} is in no part",
            "add it to a part if it is to be used",
        ),
    ]


def check_overlaps(data: DataSet) -> list[Finding]:
    """Sets side by side that are known to hold the same videos.

    Args:
        data: The data set.

    Returns:
        A warning for each pair of them.
    """
    pairs = pl.DataFrame({"what": overlaps(data)}, schema={"what": pl.String})
    return find(pairs, "warning", "overlapping data sets", "{what}", _OTHER_NAMES)


def _in_several_parts(members: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """Groups (procedures or patients) in more than one part; columns `group` and parts (text)."""
    parts = members.group_by(group, maintain_order=True).agg(
        pl.col("part").unique(maintain_order=True)
    )
    several = parts.filter(pl.col("part").list.len() > 1)
    return several.select(*group, parts=pl.col("part").list.join(" and "))
