"""A published table beside ours as files: HTML to read, CSV to compute with, LaTeX to print."""

import csv
from html import escape
from pathlib import Path

from polyplink.core.artefacts import whole_file, write_text
from polyplink.report.formats import DASH, signed
from polyplink.report.reproduced import ReproducedCell, ReproducedTable, places

CSV_COLUMNS = (
    "table",
    "group",
    "row",
    "column",
    "unit",
    "published",
    "published_spread",
    "ours",
    "low",
    "high",
    "spread",
    "units",
    "units_of",
    "difference",
    "not_comparable",
    "missing",
    "remark",
)

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #17181a; } }
h1 { font-size: 1.3rem; margin-bottom: .2rem; }
.banner { border-left: 5px solid #d55e00; padding: .5rem .8rem; font-weight: 600;
  background: #d55e0022; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .7rem; text-align: right; font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid #8888; }
td:nth-child(-n+3), th:nth-child(-n+3) { text-align: left; }
tr.first td { border-top: 1px solid #8886; }
td.missing { color: #888; }
small { color: #777; }
"""


def write_reproduced(folder: Path, result: ReproducedTable) -> None:
    """Write table.html, table.csv and table.tex, each whole or not at all."""
    write_text(folder / "table.html", html(result))
    write_text(folder / "table.tex", latex(result))
    with (
        whole_file(folder / "table.csv") as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(CSV_COLUMNS)
        for cell in result.cells:
            writer.writerow(_csv_row(result, cell))


def _csv_row(result: ReproducedTable, cell: ReproducedCell) -> tuple[object, ...]:
    return (
        *(result.name, cell.group, cell.row, cell.column, cell.unit),
        *(cell.published_text, cell.published_spread),
        *(cell.ours, cell.low, cell.high, cell.spread),
        *(cell.units if cell.ours is not None else None, cell.units_of),
        *(cell.difference, result.incomparable, cell.why, cell.remark),
    )


def _difference(cell: ReproducedCell) -> str:
    return DASH if cell.difference is None else signed(cell.difference, cell.digits)


def _units(cell: ReproducedCell) -> str:
    """How many independent units ours rests on; nothing where there is no figure."""
    return f"{cell.units} {cell.units_of}" if cell.ours is not None else ""


def html(result: ReproducedTable) -> str:
    """One page, without anything to load."""
    ours = f"ours<br>({escape(result.incomparable)})" if result.incomparable else "ours"
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(result.name)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(result.name)}</h1><p>{escape(result.caption)}.<br>",
        f"<small>{escape(result.source)}. Ours on the part {escape(result.part)}; "
        f"{result.computed} of {len(result.cells)} cells computed; intervals are 95 %, "
        "± is the standard deviation over procedures.</small></p>",
    ]
    if result.banner:
        lines.append(f'<p class="banner">{escape(result.banner)}</p>')
    lines.append(
        "<table><thead><tr><th></th><th>row</th><th>column</th><th>published</th>"
        f"<th>{ours}</th><th>difference</th><th>n</th></tr></thead><tbody>"
    )
    before = ("", "")
    for cell in result.cells:
        here = (cell.group, cell.row)
        first = here != before
        names = (cell.group, cell.row) if first else ("", "")
        star = "*" if cell.remark else ""
        missing = f' class="missing" title="{escape(cell.why)}"' if cell.ours is None else ""
        lines.append(
            f'<tr class="{"first" if first else ""}"><td>{escape(names[0])}</td>'
            f"<td>{escape(names[1])}</td><td>{escape(cell.column)}</td>"
            f'<td title="{escape(cell.remark)}">{escape(cell.paper_words)}{star}</td>'
            f"<td{missing}>{escape(cell.our_words)}</td><td>{_difference(cell)}</td>"
            f"<td><small>{escape(_units(cell))}</small></td></tr>"
        )
        before = here
    lines.append("</tbody></table>")
    lines += _notes("Not computed", list(result.reasons.items()))
    lines += _notes("* Remarks on the published numbers", result.remarks)
    return "\n".join([*lines, "</body></html>\n"])


def _notes(title: str, notes: list[tuple[str, list[ReproducedCell]]]) -> list[str]:
    if not notes:
        return []
    items = [
        f"<li>{escape(why)} <small>{escape(places(cells))}</small></li>" for why, cells in notes
    ]
    return [f"<h2>{escape(title)}</h2><ul>", *items, "</ul>"]


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "–": "--",
    "\N{MINUS SIGN}": "$-$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "<": "$<$",  # other signs in some fonts
    ">": "$>$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def tex(text: str) -> str:
    """Text with what LaTeX takes for commands written so that it is printed."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def latex(result: ReproducedTable) -> str:
    """A longtable with booktabs: what is not comparable in its caption, what is missing below."""
    caption = f"{result.caption} ({result.source})."
    if result.banner:
        caption += f" {result.banner}."
    head = r"group & row & column & published & ours & difference & n \\"
    lines = [
        "% needs \\usepackage{booktabs,longtable}",
        r"\begin{longtable}{lllrrrr}",
        rf"\caption{{{tex(caption)}}}\\",
        r"\toprule",
        head,
        r"\midrule",
        r"\endhead",
    ]
    for cell in result.cells:
        found = (cell.paper_words, cell.our_words, _difference(cell), _units(cell))
        words = (cell.group, cell.row, cell.column, *found)
        lines.append(" & ".join(map(tex, words)) + r" \\")
    lines += [r"\bottomrule", r"\end{longtable}"]
    for why, cells in result.reasons.items():
        lines += ["", tex(f"Not computed: {places(cells)}: {why}.")]
    return "\n".join([*lines, ""])
