"""What a probe found, for the terminal."""

from collections.abc import Mapping

from rich.table import Table

from polyplink.evaluate import Figure
from polyplink.report.formats import number

MEANINGS = {
    "F1": "macro F1, every polyp weighing 1",
    "accuracy": "share of fragments called rightly",
    "majority": "share of polyps whose fragments vote rightly",
    "AUROC": "of the polyps' mean probability",
}


def probe_table(task: str, figures: Mapping[str, Figure]) -> Table:
    """One row per figure: value, interval over polyps, their number.

    Args:
        task: Its name, for the title.
        figures: Name to the mean over seeds.
    """
    table = Table(title=f"Probe: {task}", title_justify="left")
    for name in ("figure", "value", "95 % interval", "polyps", "what it is"):
        table.add_column(name, justify="left" if name in ("figure", "what it is") else "right")
    for name, found in figures.items():
        known = found.low is not None and found.high is not None
        ends = f"{number(found.low)} to {number(found.high)}" if known else ""
        table.add_row(name, number(found.value), ends, str(found.n), MEANINGS.get(name, ""))
    return table
