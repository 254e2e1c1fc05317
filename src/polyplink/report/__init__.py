"""Reports: one HTML file for reading, tables for the terminal, CSV for a spreadsheet."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.report.page import (
        render as render,
        render_fragment as render_fragment,
        write_report as write_report,
    )
    from polyplink.report.printed_tables import (
        comparison_table as comparison_table,
        count_table as count_table,
        write_csv as write_csv,
    )
    from polyplink.report.records import (
        Comparison as Comparison,
        FigureColumn as FigureColumn,
        Method as Method,
        Procedure as Procedure,
        Report as Report,
        Tracklet as Tracklet,
    )

hand_on(__name__)
