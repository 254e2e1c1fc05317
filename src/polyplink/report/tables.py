"""The figures for the terminal and for a spreadsheet."""

import csv
from pathlib import Path

from rich.table import Table
from rich.text import Text

from polyplink.artefacts import whole_file
from polyplink.report.figures import ABSENT, Comparison, Figure, best_method, figure_of
from polyplink.report.formats import interval, number, reason, signed
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
)


def figure_text(figure: Figure, difference: Figure, best: bool) -> Text:
    """A cell: the value, its interval and, under it, the difference to the first method."""
    text = Text(number(figure.value), style="bold" if best else "")
    if ends := interval(figure):
        text.append(f"\n{ends}", style="not bold dim")
    if difference.known:
        text.append(f"\nΔ {signed(difference.value)}", style="not bold dim")
        if ends := interval(difference):
            text.append(f" ({ends})", style="not bold dim")
    return text


def comparison_tables(comparison: Comparison) -> list[Table]:
    """One table per group of metrics, methods as rows; print them with a rich console."""
    tables = []
    for group, metrics in comparison.groups():
        table = Table(title=Text(group), title_justify="left", show_lines=True)
        table.add_column("method")
        for metric in metrics:
            n = max((figure_of(m, metric).units or 0 for m in comparison.methods), default=0)
            note = " (self-pairs counted)" if metric.style == "reference" else ""
            units = f"\nn = {n} {metric.unit}" if n else ""
            table.add_column(Text(f"{metric.name}{note}{units}"), justify="right")
        best = {metric.key: best_method(comparison, metric) for metric in metrics}
        for method in comparison.methods:
            cells = [
                figure_text(
                    figure_of(method, metric),
                    method.differences.get(metric.key, ABSENT),
                    best[metric.key] == method.name,
                )
                for metric in metrics
            ]
            table.add_row(Text(method.name), *cells)
        tables.append(table)
    return tables


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
                    )
                )
