"""All published tables in the terminal: what each needs, and whether it can be run now."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text


def states_table(states: Sequence[Mapping[str, Any]]) -> Table:
    """One row per table.

    Args:
        states: Plain values of `jobs.reproducible.TableState`.
    """
    table = Table(
        caption="runs now, given the data: whole; in part; not. Names of what is missing stand in "
        "the last column; `--json` says how to get it",
        caption_justify="left",
    )
    table.add_column("table", no_wrap=True)
    table.add_column("cells", justify="right")
    table.add_column("runs", no_wrap=True)
    for name in ("data", "needs", "missing"):
        table.add_column(name)
    for state in states:
        needs = [*state["recipes"], *state["weights"]]
        table.add_row(
            state["name"],
            str(state["cells"]),
            state["runs"],
            Text(state["data"]),
            Text(", ".join(needs)),
            Text("all of them" if len(state["missing"]) == len(needs) else _names(state)),
        )
    return table


def _names(state: Mapping[str, Any]) -> str:
    return ", ".join(state["missing"])
