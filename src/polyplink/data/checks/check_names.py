"""The doctor's check of names: doubles, and names that almost match."""

import re
from collections.abc import Iterable

import polars as pl

from polyplink.data.checks.findings import Finding, find
from polyplink.data.tables import DataSet


def check_names(data: DataSet) -> list[Finding]:
    """Names that differ so little that one thing may go by two, and boxes that occur twice.

    Args:
        data: The data set.

    Returns:
        Procedures, patients or polyps whose names differ in case, blanks, `-` and `_`, or leading
        zeros alone (warnings), and words of histology and location likewise; boxes that are in
        the table twice (warning).
    """
    columns = (
        ("procedures", "procedure_id", data.procedures),
        ("procedures", "patient", data.procedures),
        ("polyps", "polyp_id", data.polyps),
        ("polyps", "histology_class", data.polyps),
        ("polyps", "location", data.polyps),
    )
    findings = []
    for table, column, rows in columns:
        findings += find(
            near_names(rows[column].drop_nulls().unique(maintain_order=True)),
            "warning",
            f"near names of {column}",
            f"table {table}, column {column}: {{first}} and {{second}} are almost one name",
            "write both in one way if they mean the same",
        )
    box = ["procedure_id", "frame", "x", "y", "w", "h", "polyp_id"]
    twice = data.detections.filter(~pl.struct(box).is_first_distinct())
    return findings + find(
        twice,
        "warning",
        "box twice",
        "procedure {procedure_id}, frame {frame}: box ({x:g}, {y:g}, {w:g}, {h:g}) is there twice",
        "leave one of them",
    )


def near_names(names: Iterable[str]) -> pl.DataFrame:
    """Pairs of names that are one when written plainly: columns first and second."""
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        before = first.setdefault(_plain(name), name)
        if before != name:
            pairs.append((before, name))
    return pl.DataFrame(pairs, schema={"first": pl.String, "second": pl.String}, orient="row")


def _plain(name: str) -> str:
    """A name without case, kind of divider, and zeros that lead a number."""
    joined = re.sub(r"[\s_-]+", "-", name.strip().casefold())
    return re.sub(r"(?<![0-9.])0+(?=[0-9])", "", joined)
