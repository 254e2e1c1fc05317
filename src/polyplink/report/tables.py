"""The figures for the terminal and for a spreadsheet."""

import csv
from pathlib import Path

from rich.table import Table
from rich.text import Text

from polyplink.core.artefacts import whole_file
from polyplink.report.figures import ABSENT, Comparison, Figure, bold_methods, figure_of
from polyplink.report.formats import interval, number, reason
from polyplink.report.model import Report

CSV_COLUMNS = (
    "method",
    "group",
    "metric",
    "style",
    "value",
    "low",
    "high",
    "units",
    "unit",
    "difference",
    "difference_low",
    "difference_high",
    "missing",
    "bold",
)


def figure_text(figure: Figure, best: bool) -> Text:
    """A cell: the value, and under it its interval."""
    text = Text(number(figure.value), style="bold" if best else "")
    if ends := interval(figure):
        text.append(f"\n{ends}", style="not bold dim")
    return text


def comparison_table(comparison: Comparison) -> Table:
    """Figures as rows, in their groups, and methods as columns; print it with a rich console.

    Paired differences are in the report and in the CSV file; here the best is bold where they
    bear it out.
    """
    said = "the best and those no different" if comparison.alike else "better beyond chance"
    table = Table(
        caption=f"95 % intervals over n procedures, or what n says; bold: {said}, in pairs"
    )
    table.add_column("figure")
    for method in comparison.methods:
        table.add_column(Text(method.name), justify="right")
    table.add_column("n", justify="right")
    for group, metrics in comparison.groups():
        table.add_section()
        table.add_row(Text(group, style="italic"))
        for metric in metrics:
            figures = [figure_of(method, metric) for method in comparison.methods]
            bold = bold_methods(comparison, metric)
            note = "\n(self-pairs counted)" if metric.style == "reference" else ""
            units = max((figure.units or 0 for figure in figures), default=0)
            n = f"{units}" if metric.unit == "procedures" else f"{units} {metric.unit}"
            cells = [
                figure_text(figure, method.name in bold)
                for figure, method in zip(figures, comparison.methods, strict=True)
            ]
            table.add_row(Text(f"{metric.name}{note}"), *cells, n if units else "")
    return table


def count_table(report: Report) -> Table:
    """One row per procedure: tracklets, polyps counted and, where known, their true number."""
    table = Table(title="Polyps per procedure", title_justify="left")
    table.add_column("procedure")
    with_truth = any(procedure.n_polyps is not None for procedure in report.procedures)
    for name in ("tracklets", "counted", *(["true"] if with_truth else []), "to look at"):
        table.add_column(name, justify="right")
    for procedure in report.procedures:
        true = [number(procedure.n_polyps, 0)] if with_truth else []
        table.add_row(
            Text(procedure.procedure_id),
            str(len(procedure.tracklets)),
            str(procedure.n_counted),
            *true,
            str(len(procedure.uncertain)),
        )
    return table


def write_csv(path: Path, comparison: Comparison) -> None:
    """Write every figure as one row of a CSV file, whole or not at all.

    Columns: `CSV_COLUMNS`. Values have full precision; what is missing is empty, with the
    reason in the column "missing".
    """
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_COLUMNS)
        for method in comparison.methods:
            for metric in comparison.metrics:
                figure = figure_of(method, metric)
                difference = method.differences.get(metric.key, ABSENT)
                ends = (figure.low, figure.high) if figure.known else (None, None)
                writer.writerow(
                    (
                        *(method.name, metric.group, metric.name, metric.style),
                        *(figure.value if figure.known else None, *ends),
                        *(figure.units, metric.unit),
                        *(difference.value, difference.low, difference.high),
                        reason(figure),
                        method.name in bold_methods(comparison, metric),
                    )
                )
