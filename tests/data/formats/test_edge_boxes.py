import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.formats.edge_boxes import (
    EdgeBox,
    PolypRow,
    ProcedureRow,
    edges_to_xywh,
    join_edges,
)

edge = st.floats(-50, 150) | st.sampled_from([float("nan"), float("inf"), 0.0, 100.0])


def box(*edges: float, frame: int = 0) -> EdgeBox:
    return EdgeBox("a", frame, "p", None, "x.txt", *edges)


@given(st.lists(st.tuples(edge, edge, edge, edge), max_size=6))
def test_boxes_are_those_of_the_plain_rule(edges: list[tuple[float, ...]]) -> None:
    faults = Faults()
    xywh, usable = edges_to_xywh([box(*e) for e in edges], [(100, 80)] * len(edges), faults)
    left_out = 0
    for row, kept, (left, top, right, bottom) in zip(xywh, usable, edges, strict=True):
        if not all(map(np.isfinite, (left, top, right, bottom))):
            assert not kept
        else:
            x, y = min(max(left, 0), 100), min(max(top, 0), 80)
            w, h = min(max(right, 0), 100) - x, min(max(bottom, 0), 80) - y
            assert kept == (w > 0 and h > 0)
            assert tuple(row) == (x, y, w, h)
        left_out += not kept
    assert sum(n for kind, (n, _) in faults.counts.items() if "left out" in kind) == left_out


def test_kinds_of_faults() -> None:
    faults = Faults()
    edges = [(1, 1, 1, 5), (200, 1, 300, 5), (np.nan, 1, 2, 3), (90, 1, 110, 5), (1, 2, 3, 4)]
    _, usable = edges_to_xywh([box(*e) for e in edges], [(100, 80)] * 5, faults)
    assert usable.tolist() == [False, False, False, True, True]
    assert faults.lines() == [
        "1 x box of no area, left out (first: x.txt (1, 1, 1, 5))",
        "1 x box wholly outside the image, left out (first: x.txt (200, 1, 300, 5))",
        "1 x box with an edge that is not finite, left out (first: x.txt (nan, 1, 2, 3))",
        "1 x box that reaches beyond the image, cut at its border (first: x.txt (90, 1, 110, 5))",
    ]
    with pytest.raises(PolyplinkError, match=r"x\.txt \(1, 1, 1, 5\): box of no area; correct"):
        edges_to_xywh([box(*edges[0])], [(100, 80)], Faults(strict=True))


def test_rows_become_tables() -> None:
    row = ProcedureRow("a", "set", "patient", 4, 100, 80, "/here", fps=30)
    data = join_edges(
        [box(3, 4, 5, 6, frame=3), box(1, 2, 3, 4)],
        [row],
        [PolypRow("p", "a", size_mm=5.5)],
        {"train": ["a"], "test": []},
        Faults(),
    )
    assert data.detections["frame"].to_list() == [0, 3]
    assert data.procedures.row(0, named=True)["fps"] == 30
    assert data.polyps.row(0, named=True)["size_mm"] == 5.5
    assert data.splits == {"train": ["a"]}
    assert join_edges([], [], [], {}, Faults()).detections.is_empty()
