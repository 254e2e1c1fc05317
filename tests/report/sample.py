"""Small reports of invented data, and a parser of pages."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from polyplink.core.messages import Message
from polyplink.counting.result import (
    CountedPolyp,
    CountedProcedure,
    CountedQuestion,
    CountedTracklet,
)
from polyplink.evaluate.intervals import Figure
from polyplink.report.comparison import Comparison, FigureColumn, Method
from polyplink.report.contents import Report, ReportedProcedure

HTML_INJECTION = "<script>alert('x')</script>&\"</title>"


def tracklet(name: str, first: int, last: int) -> CountedTracklet:
    """A tracklet with a confidence."""
    return CountedTracklet(name, first, last, confidence=0.75)


def counted(
    procedure_id: str, polyps: Mapping[str, Sequence[CountedTracklet]], **fields: Any
) -> CountedProcedure:
    """The count of a procedure with the tracklets of each polyp, and further fields."""
    return CountedProcedure(
        procedure_id,
        len(polyps),
        tracklets=sum(map(len, polyps.values())),
        groups=tuple(CountedPolyp(name, tuple(members)) for name, members in polyps.items()),
        false_alarms=len(fields.get("alarms", ())),
        **fields,
    )


def procedure(name: str = "p0", prefix: str = "") -> ReportedProcedure:
    """Five tracklets of two true polyps, counted as three; their ids begin with the prefix."""
    spans = ((0, 99), (150, 260), (700, 720), (1000, 1100), (1050, 1200))
    t = [tracklet(f"{prefix}t{i}", first, last) for i, (first, last) in enumerate(spans)]
    ids = [tracklet.tracklet_id for tracklet in t]
    links = (CountedQuestion((ids[2],), (ids[0], ids[1]), False, 0.6),)
    polyps = {"x": t[:2], "z": t[2:3], "y": t[3:]}
    return ReportedProcedure(
        counted(name, polyps, converged=True, to_look_at=links),
        3000,
        25.0,
        2,
        {name: prefix + true for name, true in zip(ids, "aaabb", strict=True)},
        dict.fromkeys(ids, np.full((120, 100, 3), 90, dtype=np.uint8)),
        np.eye(5) * 0.5 + 0.5,
    )


def changed(case: ReportedProcedure, **fields: Any) -> ReportedProcedure:
    """A procedure with other fields of its count."""
    return replace(case, counted=replace(case.counted, **fields))


def comparison() -> Comparison:
    """Two methods; the second is significantly better in mAP but not in FPR."""
    metrics = (
        FigureColumn("mAP", "mAP", "Retrieval", 1.0),
        FigureColumn("FPR", "FPR", "Counting", 0.0, unit="polyps", style="reference"),
    )
    first = Method("first", {"mAP": Figure(0.5, 0.4, 0.6, n=19), "FPR": Figure(0.1, n=10)})
    second = Method(
        "second",
        {"mAP": Figure(0.7, 0.6, 0.8, n=19), "FPR": Figure(0.05, n=10)},
        {"mAP": Figure(0.2, 0.1, 0.3), "FPR": Figure(-0.05, -0.1, 0.02)},
    )
    return Comparison(metrics, (first, second), {"mAP": ("second",), "FPR": ()})


def report() -> Report:
    """A report with every section."""
    return Report(
        "A report",
        "made-up data",
        "2025-01-02",
        "a machine",
        "w123",
        "c456",
        7,
        True,
        procedures=(procedure("p0"), changed(procedure("p1"), converged=False)),
        comparison=comparison(),
        curves={
            "loss": (3.0, 2.0, 1.5),
            "validation_loss": (3.1, None, 2.0),
            "tau": (0.3, 6.0, 12.0),
            "purity": (1.0, 0.9, 0.8),
        },
        best_epoch=2,
        operating_point=(("method", "threshold"), ("threshold", 0.6), ("chosen", "leave one out")),
        settings={"psi": "5"},
        seconds=(("embed", 1.5), ("associate", 0.02)),
        notes=("A note.",),
        warnings=("A warning.", Message("not_converged", {"names": "p1"})),
    )


def print_table(table: RenderableType, width: int = 140) -> str:
    """The text of a table as printed in a terminal of `width` columns."""
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


@st.composite
def procedures(draw: st.DrawFn) -> ReportedProcedure:
    """Random procedures: with overlaps, unknown truth, one-frame tracklets or no tracklets."""
    n = draw(st.integers(0, 12))
    n_frames = draw(st.integers(1, 5000))
    polyps: dict[str, list[CountedTracklet]] = {}
    true_polyps = {}
    for index in range(n):
        first = draw(st.integers(0, n_frames - 1))
        last = draw(st.integers(first, n_frames - 1))
        polyp = draw(st.sampled_from(["x", "y", "z"]))
        polyps.setdefault(polyp, []).append(CountedTracklet(f"t{index}", first, last))
        true = draw(st.sampled_from(["a", "b", "c", None]))
        if true is not None:
            true_polyps[f"t{index}"] = true
    fps = draw(st.sampled_from([None, 25.0, 59.94]))
    return ReportedProcedure(counted("p", polyps), n_frames, fps, true_polyps=true_polyps)


class ParsedPage(HTMLParser):
    """Elements, attributes and text of a page, and whether its tags are balanced."""

    VOID = frozenset({"meta", "link", "img", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.balanced = True
        self.feed(text)
        self.close()
        self.balanced &= not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self.balanced &= bool(self.open) and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def with_class(self, name: str) -> list[tuple[str, dict[str, str]]]:
        return [e for e in self.elements if name in e[1].get("class", "").split()]

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())
