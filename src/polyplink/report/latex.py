"""Tables for a paper in LaTeX: rules of booktabs, the best figures bold, to be read by `input`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polyplink.report.formats import DASH, MINUS, interval, number
from polyplink.report.records import Comparison

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
}


class TexCell(NamedTuple):
    """The text of a cell, not yet escaped, and whether it is bold."""

    text: str
    bold: bool = False


def tex(text: str) -> str:
    """A text with the letters escaped that LaTeX reads as commands.

    Example:
        >>> tex("p < 0.05")
        'p $<$ 0.05'
    """
    return "".join(_TEX.get(letter, letter) for letter in text)


def tabular(header: Sequence[str], groups: Mapping[str, Sequence[Sequence[TexCell]]]) -> str:
    """A tabular environment: a line of headings, then groups of rows with a rule between them.

    Args:
        header: Headings of the columns; the first one is over the names of rows.
        groups: By name of the group ("" for none), rows of as many cells as the header has.
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
    """Methods in rows and the headline's figures in columns, with 95 % intervals or deviations."""
    metrics = comparison.first_metrics
    rows = []
    for method in comparison.methods:
        row = [TexCell(method.name)]
        for metric in metrics:
            figure = method.figure(metric)
            text = number(figure.value)
            if figure.sd is not None:
                text += f" ± {number(figure.sd)}"
            if ends := interval(figure):
                text += f" ({ends})"
            row.append(TexCell(text, method.name in comparison.bold.get(metric.key, ())))
        rows.append(row)
    doubled = [metric.name for metric in metrics]
    header = [
        metric.name if doubled.count(metric.name) == 1 else f"{metric.name} ({metric.group})"
        for metric in metrics
    ]
    return tabular(["", *header], {"": rows}) + "\n"
