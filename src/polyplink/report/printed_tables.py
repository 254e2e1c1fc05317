"""Tables of figures for the terminal (rich) and for a spreadsheet (CSV)."""

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table
from rich.text import Text

from polyplink.core.artefacts import atomic_file
from polyplink.core.text import csv_cell, many
from polyplink.evaluate.intervals import FEWEST, Figure
from polyplink.report.comparison import NOT_MEASURED, Comparison
from polyplink.report.formats import (
    DASH,
    clock,
    figure_text,
    interval,
    number,
    reason,
    signed,
    value_and_sd,
)

if TYPE_CHECKING:
    from polyplink.evaluate.detections import DetectorFigures
    from polyplink.recipes.provenance import FieldSource


def comparison_table(comparison: Comparison) -> Table:
    """The comparison with figures as rows, in groups, and methods as columns, to print with rich.

    Paired differences are in the report and in the CSV file; here they only determine the bold
    figures.
    """
    figures = [method.figure(m) for method in comparison.methods for m in comparison.metrics]
    caption = _caption(figures, "n procedures, or over the units given with n")
    if any(comparison.bold.values()):
        caption += "; bold: the best and those not significantly different, in paired differences"
    table = Table(caption=caption)
    table.add_column("figure")
    for method in comparison.methods:
        table.add_column(Text(method.name), justify="right")
    table.add_column("n", justify="right")
    for group, metrics in comparison.groups():
        table.add_section()
        table.add_row(Text(group, style="italic"))
        for metric in metrics:
            figures = [method.figure(metric) for method in comparison.methods]
            bold = comparison.bold.get(metric.key, ())
            note = "\n(self-pairs counted)" if metric.style == "reference" else ""
            n = max((figure.n for figure in figures), default=0)
            unit = "" if metric.unit == "procedures" else f" {metric.unit}"
            cells = []
            for figure, method in zip(figures, comparison.methods, strict=True):
                cell = Text(value_and_sd(figure), style="bold" if method.name in bold else "")
                if ends := interval(figure):
                    cell.append(f"\n{ends}", style="not bold dim")
                cells.append(cell)
            table.add_row(Text(f"{metric.name}{note}"), *cells, f"{n}{unit}" if n else "")
    return table


def difference_table(columns: Mapping[str, Mapping[str, Figure]]) -> Table:
    """A table of paired differences: figures as rows, the compared methods as columns.

    Args:
        columns: Heading -> figure -> the difference with its interval.
    """
    gaps = [gap for figures in columns.values() for gap in figures.values()]
    bold = "; bold: the interval excludes 0" if any(gap.differs for gap in gaps) else ""
    table = Table(caption=_caption(gaps, "procedures") + bold)
    table.add_column("figure")
    for heading in columns:
        table.add_column(Text(heading), justify="right")
    for name in dict.fromkeys(name for figures in columns.values() for name in figures):
        cells = []
        for figures in columns.values():
            gap = figures.get(name, NOT_MEASURED)
            ends = interval(gap)
            text = f"{signed(gap.value)} ({ends})" if ends else signed(gap.value)
            cells.append(Text(text, style="bold" if gap.differs else ""))
        table.add_row(Text(name), *cells)
    return table


def _caption(figures: Iterable[Figure], units: str) -> str:
    """What the intervals of a table are, or that it has none."""
    if any(interval(figure) for figure in figures):
        return f"95 % intervals over {units}"
    return f"no 95 % intervals, which need {FEWEST} procedures or more"


def probe_table(task: str, figures: Mapping[str, Figure], meanings: Mapping[str, str]) -> Table:
    """A table with a row per figure of a probe: value, interval over polyps, number of polyps.

    Args:
        task: Name of the task, for the title.
        figures: Name -> mean over seeds.
        meanings: Name -> explanation of the figure.
    """
    table = Table(title=f"Probe: {task}", title_justify="left")
    for name in ("figure", "value", "95 % interval", "polyps", "meaning"):
        table.add_column(name, justify="left" if name in ("figure", "meaning") else "right")
    for name, figure in figures.items():
        cells = number(figure.value), interval(figure), str(figure.n), meanings[name]
        table.add_row(name, *cells)
    return table


def matches_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table with a row per similar view of an index, the most similar first."""
    table = Table(title=Text(title, "table.title"), title_justify="left")
    right = ("", "similarity", "time", "mm")
    for name in ("", "similarity", "procedure", "time", "tracklet", "mm", "histology"):
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name == "tracklet")
    for place, row in enumerate(rows, start=1):
        table.add_row(
            str(place),
            number(row["similarity"]),
            Text(row["procedure_id"]),
            clock(row["start_s"]),
            Text(row["tracklet_id"]),
            number(row["size_mm"], 1),
            Text(row["histology"] or DASH),
        )
    return table


def write_csv(path: Path, comparison: Comparison) -> None:
    """Write every figure as a row of a CSV file, atomically; see `figure_rows`."""
    write_rows(path, figure_rows(comparison))


def figure_rows(comparison: Comparison) -> list[dict[str, object]]:
    """A row for each method and figure.

    Values have full precision; missing values are None, with the reason in the column "missing".
    """
    rows: list[dict[str, object]] = []
    for method in comparison.methods:
        for metric in comparison.metrics:
            figure, difference = method.figure(metric), method.difference(metric)
            rows.append(
                {
                    "method": method.name,
                    "group": metric.group,
                    "metric": metric.name,
                    "style": metric.style,
                    "value": figure.value if figure.is_defined else None,
                    "low": figure.low if figure.is_defined else None,
                    "high": figure.high if figure.is_defined else None,
                    "sd": figure.sd,
                    "units": figure.n or None,
                    "unit": metric.unit,
                    "difference": difference.value,
                    "difference_low": difference.low,
                    "difference_high": difference.high,
                    "missing": reason(figure),
                    "bold": method.name in comparison.bold.get(metric.key, ()),
                }
            )
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows with equal columns as a CSV file, atomically; None becomes an empty cell."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0] if rows else ())
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)


def fields_table(recipe: str, fields: "Sequence[FieldSource]") -> Table:
    """A table of the fields of a recipe and the sources of their values."""
    columns = ("field", "type", "value", "source", "note")
    table = Table(*columns, title=recipe, title_justify="left")
    for field in fields:
        cells = (field.type, str(field.value), field.source, field.note)
        table.add_row(field.name, *map(Text, cells))
    return table


COMPARED = ("count error", "exact", "tracking/HOTA")  # differences of clusterers always printed


def difference_tables(
    comparison: Comparison, by_method: Mapping[str, Mapping[str, Mapping[str, Figure]]]
) -> list[Any]:
    """Paired differences to print: between methods, and between clusterers on their vectors.

    Args:
        comparison: Methods by figures.
        by_method: Method -> differences of its clusterers, for the methods to show; the first
            method is the reference.
    """

    def selected(
        gaps: Mapping[str, Mapping[str, Figure]], keys: Collection[str]
    ) -> dict[str, dict[str, Figure]]:
        """The differences of some figures, by method or clusterer."""
        return {
            name: {key: gap for key, gap in differences.items() if key in keys}
            for name, differences in gaps.items()
        }

    # Between methods: the figures of the headline.
    first, *other_methods = by_method
    first_keys = {metric.key for metric in comparison.first_metrics}
    gaps = {
        method.name: method.differences
        for method in comparison.methods
        if method.name in other_methods
    }
    parts: list[Any] = []
    if gaps:
        parts += [f"minus {first}:", difference_table(selected(gaps, first_keys))]

    # Between clusterers: their figures of the headline, which are named "links/FR" and
    # "tracking/links/HOTA", and some that are always printed.
    measured = [key.split("/") for key in comparison.methods[0].figures if "/" in key]
    first_clusterer = next((clusterer for *_, clusterer, _ in measured), "")
    figures = {*COMPARED}
    for *group, _, figure in (key.split("/") for key in first_keys if "/" in key):
        figures.add("/".join([*group, figure]))
    for name, clusterer_gaps in by_method.items():
        of_figures = selected(clusterer_gaps, figures)
        if any(gap.is_defined for gaps in of_figures.values() for gap in gaps.values()):
            parts.append(f"clusterers on the vectors of {name}, minus {first_clusterer}:")
            parts.append(difference_table(of_figures))
    return parts


def write_clusterers(
    path: Path, by_method: Mapping[str, Mapping[str, Mapping[str, Figure]]]
) -> None:
    """Write the differences between each clusterer and the first, a row per figure."""
    rows = [
        {"method": method, "clusterer": clusterer, "metric": key}
        | {"difference": gap.value, "low": gap.low, "high": gap.high, "units": gap.n}
        for method, gaps in by_method.items()
        for clusterer, differences in gaps.items()
        for key, gap in differences.items()
    ]
    if rows:
        write_rows(path, rows)


def detector_lines(figures: "DetectorFigures") -> list[str]:
    """The figures of a detector as lines of text."""
    lines = [
        f"{many(figures.frames, 'frame')}, {figures.empty} of them without a polyp, "
        f"{many(figures.polyps, 'annotated box')}; 95 % intervals over procedures",
        f"AP50 {figure_text(figures.ap50)}, AP {figure_text(figures.ap)}",
        f"from score {figures.score:.2f}: recall {figure_text(figures.recall)}, precision "
        f"{figure_text(figures.precision)}",
    ]
    if figures.false_boxes is not None:
        lines.append(f"boxes in a frame without a polyp: {figure_text(figures.false_boxes)}")
    lines += [
        f"recall at {boxes} boxes in a frame without a polyp: {figure_text(recall)}"
        for boxes, recall in figures.recall_at.items()
    ]
    return lines + [
        f"recall, {name}: {figure_text(recall)} of {recall.n}"
        for name, recall in figures.recall_by.items()
    ]
