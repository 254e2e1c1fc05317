"""Small reports of invented data, and a parser of pages."""

import io
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from polyplink.associate.identities import Question
from polyplink.core.messages import Message
from polyplink.evaluate.intervals import Figure
from polyplink.report.comparison import Comparison, FigureColumn, Method
from polyplink.report.contents import Report, ReportedProcedure, ReportedTracklet

HTML_INJECTION = "<script>alert('x')</script>&\"</title>"


def tracklet(
    name: str, first: int, last: int, predicted: str, polyp_id: str | None = None
) -> ReportedTracklet:
    """A tracklet with a grey crop and a confidence."""
    crop = np.full((120, 100, 3), 90, dtype=np.uint8)
    return ReportedTracklet(name, first, last, predicted, polyp_id, 0.75, crop)


def procedure(name: str = "p0") -> ReportedProcedure:
    """Five tracklets of two true polyps, counted as three."""
    members = (
        tracklet("t0", 0, 99, "x", "a"),
        tracklet("t1", 150, 260, "x", "a"),
        tracklet("t2", 700, 720, "z", "a"),
        tracklet("t3", 1000, 1100, "y", "b"),
        tracklet("t4", 1050, 1200, "y", "b"),
    )
    similarity = np.eye(5) * 0.5 + 0.5
    links = (Question((2,), (0, 1), False, 0.6, (2, 0)),)
    return ReportedProcedure(name, 3000, members, 25.0, 2, similarity, True, links)


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
        procedures=(procedure("p0"), replace(procedure("p1"), converged=False)),
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
    members = []
    for index in range(n):
        first = draw(st.integers(0, n_frames - 1))
        last = draw(st.integers(first, n_frames - 1))
        predicted = draw(st.sampled_from(["x", "y", "z"]))
        true = draw(st.sampled_from(["a", "b", "c", None]))
        members.append(ReportedTracklet(f"t{index}", first, last, predicted, true))
    fps = draw(st.sampled_from([None, 25.0, 59.94]))
    return ReportedProcedure("p", n_frames, tuple(members), fps)


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
