from io import StringIO

from rich.console import Console

from polyplink.report.reproduced_list import states_table


def test_a_row_for_each_table() -> None:
    state = {
        "name": "ta/1",
        "cells": 10,
        "data": "rc19",
        "recipes": ["ta384-tpc"],
        "weights": ["endofm"],
        "runs": "in part",
        "missing": {"endofm": "not here; add it"},
    }
    whole = {**state, "name": "ta/2", "missing": {"endofm": "", "ta384-tpc": ""}}
    console = Console(width=140, file=StringIO(), record=True)
    console.print(states_table([state, whole]))
    text = console.export_text()
    assert "all of them" in text
    assert all(part in text for part in ("ta/1", "10", "ta384-tpc", "in part", "endofm"))
