"""A small table beside ours."""

from polyplink.report.reproduced import ReproducedCell, ReproducedTable


def cell(row: str, column: str, ours: float | None, **changed: object) -> ReproducedCell:
    values: dict[str, object] = {
        "group": "Self & others",
        "row": row,
        "column": column,
        "unit": "%",
        "published": 63.13,
        "published_text": "63.13",
        "published_spread": None,
        "ours": ours,
        "low": None,
        "high": None,
        "spread": None,
        "units": 19,
        "units_of": "procedures",
        "difference": None,
        "why": "",
        "remark": "",
    }
    return ReproducedCell(**(values | changed))  # type: ignore[arg-type]


def sample(incomparable: str = "SIMULATED data") -> ReproducedTable:
    cells = (
        cell("Ours", "mAP", 61.5, low=58.25, high=64.0, difference=-1.63),
        cell("Ours", "FR", 2.4, published_text="2.32", published_spread=1.8, spread=1.75),
        cell("Endo<FM>", "mAP", None, why="weights of endofm are missing; add them", remark="odd"),
    )
    return ReproducedTable(
        "ntssl/1", "a paper, table 1", "Encoders", "eval", incomparable, False, cells
    )
