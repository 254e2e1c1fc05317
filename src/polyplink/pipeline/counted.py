"""A finished count, as returned by the functions that count."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.counting.result import Count
from polyplink.data.tables import DataSet
from polyplink.report.page import render_fragment
from polyplink.report.records import Report

# Columns of counts.csv.
COUNTS = ("procedure_id", "polyps", "low", "high", "tracklets", "false_alarms", "converged")


@dataclass(frozen=True)
class Counted:
    """A finished count; a notebook shows the counts, the time lines and the views.

    Attributes:
        report: The report's file.
        polyps: Polyps counted in all procedures.
        page: The contents of the report.
        count: The record of the count, as written to count.json.
        boxes: The linked boxes: procedure_id, frame, x, y, w, h, score, polyp and
            tracklet (both from 1 in a procedure), and interpolated (in a gap of the tracklet).
        data: The data set that was counted.
        tracks: track_id and polyp of each detection of `data`; null for none.
        views: The contents of views.csv, a row for each tracklet.
    """

    report: Path
    polyps: int
    page: Report = field(repr=False)
    count: Count = field(repr=False)
    boxes: pl.DataFrame = field(repr=False)
    data: DataSet = field(repr=False)
    tracks: pl.DataFrame = field(repr=False)
    views: pl.DataFrame = field(repr=False)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The contents of count.json."""
        return self.count.plain()

    @property
    def counts(self) -> pl.DataFrame:
        """The contents of counts.csv, a row for each procedure."""
        rows = [
            {name: getattr(procedure, name) for name in COUNTS}
            for procedure in self.count.procedures
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def _repr_html_(self) -> str:
        return render_fragment(self.page)
