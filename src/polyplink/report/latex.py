"""LaTeX tables for a paper, to include by `input`: booktabs rules, the best figures bold."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polyplink.report.comparison import Comparison
from polyplink.report.formats import DASH, MINUS, interval, value_and_sd

_TEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    DASH: "--",
    MINUS: "$-$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "<": "$<$",  # printed as another character in some font encodings
    ">": "$>$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # at the beginning of a row, an option of the line break before it
    "*": "{*}",  # and a variant of it
}


class TexCell(NamedTuple):
    """The unescaped text of a cell, and whether it is bold."""

    text: str
    bold: bool = False


def tex(text: str) -> str:
    """Escape the characters that LaTeX reads as commands.

    Example:
        >>> tex("p < 0.05")
        'p $<$ 0.05'
    """
    return "".join(_TEX.get(letter, letter) for letter in text)


def tabular(header: Sequence[str], groups: Mapping[str, Sequence[Sequence[TexCell]]]) -> str:
    """A tabular environment: a line of headings, then groups of rows separated by rules.

    Args:
        header: Headings of the columns; the first is that of the row names.
        groups: Name of a group ("" for none) -> its rows, with as many cells as the header.
    """
    lines = [
        "% needs \\usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        " & ".join(map(tex, header)) + r" \\",
    ]
    for name, rows in groups.items():
        lines.append(r"\midrule")
        if name:
            lines.append(rf"\multicolumn{{{len(header)}}}{{l}}{{\textit{{{tex(name)}}}}} \\")
        for row in rows:
            cells = (
                rf"\textbf{{{tex(cell.text)}}}" if cell.bold else tex(cell.text) for cell in row
            )
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def comparison_latex(comparison: Comparison) -> str:
    """The headline figures (columns) of methods (rows), with 95 % intervals or deviations."""
    metrics = comparison.first_metrics
    rows = []
    for method in comparison.methods:
        row = [TexCell(method.name)]
        for metric in metrics:
            figure = method.figure(metric)
            text = value_and_sd(figure)
            if ends := interval(figure):
                text += f" ({ends})"
            row.append(TexCell(text, method.name in comparison.bold.get(metric.key, ())))
        rows.append(row)
    names = [metric.name for metric in metrics]
    header = [
        metric.name if names.count(metric.name) == 1 else f"{metric.name} ({metric.group})"
        for metric in metrics
    ]
    return tabular(["", *header], {"": rows}) + "\n"
