"""Reports: one HTML file for reading, tables for the terminal, CSV for a spreadsheet."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.report.model import (
        Comparison,
        Method,
        Metric,
        Procedure,
        Report,
        Tracklet,
    )
    from polyplink.report.page import render, render_fragment, write_report
    from polyplink.report.tables import comparison_table, count_table, write_csv

__all__ = [
    "Comparison",
    "Method",
    "Metric",
    "Procedure",
    "Report",
    "Tracklet",
    "comparison_table",
    "count_table",
    "render",
    "render_fragment",
    "write_csv",
    "write_report",
]

hand_on(__name__)
