"""Similar views of an index: a page with pictures, a table for the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

from polyplink.core.artefacts import write_text
from polyplink.report.formats import DASH, clock, environment, number
from polyplink.report.page import jpeg

Row = Mapping[str, Any]
Picture = npt.NDArray[np.uint8] | None


def matches_table(title: str, rows: Sequence[Row]) -> Table:
    """One row a similar view, the most similar first."""
    table = Table(title=title, title_justify="left")
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
            row["histology"] or DASH,
        )
    return table


def write_matches(
    path: Path, title: str, query: Picture, rows: Sequence[Row], pictures: Sequence[Picture]
) -> None:
    """Write a page of similar views with their pictures; it loads nothing from outside.

    Args:
        path: The HTML file.
        title: Of the page.
        query: What was searched for, (height, width, 3), if there is a picture of it.
        rows: Similar views.
        pictures: Theirs.
    """
    templates = environment()
    templates.filters["jpeg"] = jpeg
    page = templates.get_template("matches.html.j2")
    views = list(zip(rows, pictures, strict=True))
    write_text(path, page.render(title=title, query=query, views=views))
