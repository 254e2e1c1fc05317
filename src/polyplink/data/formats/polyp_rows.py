"""Names of polyps that are unique in the data set, and a row for each."""

import polars as pl

from polyplink.data.faults import Faults
from polyplink.data.tables import POLYPS
from polyplink.data.vocabulary import normalise_location

_KEYS = ["procedure_id", "polyp_id"]
_FACTS = [name for name in POLYPS if name not in _KEYS]
IDENTITIES = ("track", "none")  # what a number of a track stands for


def name_polyps(boxes: pl.DataFrame, side: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Turn numbers of tracks into polyp ids.

    A box that has a polyp_id keeps it. One that has only a track gets the polyp that `polyps.csv`
    names for it, else `<procedure>_<track>`, which is told: nobody has said that a track is a
    polyp.

    Args:
        boxes: Columns procedure_id, polyp_id, track (texts; null where unknown).
        side: `polyps.csv`, with procedure_id, polyp_id, track.
        faults: Gets the warning.

    Returns:
        The boxes without the column track.
    """
    known = side.drop_nulls("track").select("procedure_id", "track", known="polyp_id")
    known = known.unique(["procedure_id", "track"], keep="first", maintain_order=True)
    boxes = boxes.join(known, on=["procedure_id", "track"], how="left", maintain_order="left")
    taken = boxes.filter(
        pl.col("track").is_not_null() & pl.col("polyp_id").is_null() & pl.col("known").is_null()
    )
    made = pl.concat_str("procedure_id", "track", separator="_")
    if taken.height:
        names = taken.select(made.alias("name"))["name"]
        faults.warn("track taken as a polyp of its own", names[0], names.n_unique())
    return boxes.with_columns(polyp_id=pl.coalesce("polyp_id", "known", made)).drop(
        "track", "known"
    )


def part_polyps(
    boxes: pl.DataFrame, facts: pl.DataFrame, faults: Faults
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Part polyps of one name in several procedures: each becomes `<procedure>_<name>`.

    Args:
        boxes: Columns procedure_id and polyp_id.
        facts: Rows of polyps, with the same two columns.
        faults: Gets the warning.

    Returns:
        Both, polyp ids unique to a procedure.
    """
    pairs = pl.concat([boxes.select(_KEYS), facts.select(_KEYS)]).drop_nulls().unique()
    shared = pairs.filter(pl.col("polyp_id").is_duplicated())["polyp_id"].unique().sort()
    if shared.is_empty():
        return boxes, facts
    faults.warn(
        "polyp id in several procedures, taken as <procedure>_<id>", shared[0], shared.len()
    )
    name = (
        pl.when(pl.col("polyp_id").is_in(shared.implode()))
        .then(pl.concat_str("procedure_id", "polyp_id", separator="_"))
        .otherwise("polyp_id")
        .alias("polyp_id")
    )
    return boxes.with_columns(name), facts.with_columns(name)


def polyp_rows(boxes: pl.DataFrame, facts: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """One row for every polyp that is named, locations normalised.

    Args:
        boxes: Columns procedure_id and polyp_id.
        facts: procedure_id, polyp_id and any columns of `POLYPS`; of several rows for a polyp
            the first value that is not null counts, and others that differ are told.
        faults: Gets the warning.

    Returns:
        Rows of `POLYPS`: those of `facts`, then polyps that only boxes name.
    """
    named = boxes.select(_KEYS).drop_nulls().unique(maintain_order=True)
    rows = pl.concat([facts, named], how="diagonal_relaxed").with_columns(
        pl.lit(None, dtype=POLYPS[name].dtype).alias(name)
        for name in _FACTS
        if name not in facts.columns
    )
    grouped = rows.group_by(_KEYS, maintain_order=True)
    differ = grouped.agg(pl.col(_FACTS).drop_nulls().n_unique()).filter(
        pl.any_horizontal(pl.col(_FACTS) > 1)
    )
    if differ.height:
        faults.warn(
            "polyp of which the source says two things, the first taken",
            differ["polyp_id"][0],
            differ.height,
        )
    polyps = grouped.agg(pl.col(_FACTS).drop_nulls().first()).select(list(POLYPS))
    return polyps.with_columns(normalise_location(polyps["location"].cast(pl.String)))
