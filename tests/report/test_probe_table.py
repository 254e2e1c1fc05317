from io import StringIO

from rich.console import Console

from polyplink.evaluate import Figure
from polyplink.report.probe_table import MEANINGS, probe_table


def test_values_intervals_and_units_are_told() -> None:
    figures = {"F1": Figure(0.7, 0.6, 0.8, 57), "AUROC": Figure(None, None, None, 1)}
    console = Console(width=120, file=StringIO(), record=True)
    console.print(probe_table("size", figures))
    text = console.export_text()
    assert "Probe: size" in text
    assert all(part in text for part in ("0.700", "0.600 to 0.800", "57", MEANINGS["F1"]))
    assert "None" not in text
