"""The report as one HTML file that asks for nothing outside itself."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyplink.core.artefacts import write_text
from polyplink.report.charts import Chart, training_charts
from polyplink.report.formats import environment
from polyplink.report.matching import Matching, match
from polyplink.report.matrix import Matrix, draw
from polyplink.report.model import Procedure, Report
from polyplink.report.palette import HUES, Look
from polyplink.report.strips import Pair, Strip, strips, uncertain_pairs
from polyplink.report.timeline import Timeline, layout

MOST_PAIRS = 12  # a list to look at first, not an archive


@dataclass(frozen=True)
class Section:
    """One procedure ready for the template."""

    anchor: str
    procedure: Procedure
    matching: Matching
    timeline: Timeline
    strips: list[Strip]
    matrix: Matrix | None
    n_wrong: int


@dataclass(frozen=True)
class Totals:
    """Sums over the procedures; the true number over those where it is known."""

    counted: int
    counted_where_known: int
    true: int
    known: int
    uncertain: int
    failed: list[str]


def section(index: int, procedure: Procedure) -> Section:
    """Lay out one procedure."""
    matching = match(procedure)
    return Section(
        f"procedure-{index + 1}",
        procedure,
        matching,
        layout(procedure, matching),
        strips(procedure, matching),
        draw(procedure, matching),
        sum(matching.is_wrong(tracklet) for tracklet in procedure.tracklets),
    )


def totals(procedures: tuple[Procedure, ...]) -> Totals:
    """Add up what the summary says."""
    known = [procedure for procedure in procedures if procedure.n_polyps is not None]
    return Totals(
        counted=sum(procedure.n_counted for procedure in procedures),
        counted_where_known=sum(procedure.n_counted for procedure in known),
        true=sum(procedure.n_polyps or 0 for procedure in known),
        known=len(known),
        uncertain=sum(len(procedure.uncertain) for procedure in procedures),
        failed=[p.procedure_id for p in procedures if p.converged is False],
    )


def px(value: float) -> str:
    """A length in a drawing: one decimal, none where it is zero."""
    return f"{value:.1f}".removesuffix(".0")


def look_class(look: Look | None) -> str:
    """The style class of a look's hue; a class of its own where the polyp is unknown."""
    return "unknown" if look is None else f"h{look.hue}"


def pairs_and_sections(report: Report) -> tuple[list[Pair], list[Section]]:
    """Lay out every procedure, and the doubtful links of all of them."""
    sections = [section(index, p) for index, p in enumerate(report.procedures)]
    pairs = uncertain_pairs([(s.procedure, s.matching) for s in sections], MOST_PAIRS)
    return pairs, sections


def charts_of(report: Report) -> list[Chart]:
    """Training charts, none where nothing was trained."""
    return [] if report.training is None else training_charts(report.training)


def render(report: Report) -> str:
    """Make the page.

    The page holds its own style, script and pictures. Its content security policy forbids any
    request, and any script but the one written here, so that even a browser with a network
    asks for nothing.

    Args:
        report: What to show.

    Returns:
        A whole HTML document.
    """
    templates = environment()
    templates.filters |= {"px": px, "look_class": look_class}
    script = templates.get_template("script.js").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    pairs, sections = pairs_and_sections(report)
    context: dict[str, Any] = {
        "report": report,
        "sections": sections,
        "anchors": {s.procedure.procedure_id: s.anchor for s in sections},
        "pairs": pairs,
        "totals": totals(report.procedures),
        "charts": charts_of(report),
        "hues": HUES,
        "script_digest": digest,
    }
    return templates.get_template("report.html.j2").render(context)


def write_report(path: Path, report: Report) -> None:
    """Write the page to `path`, whole or not at all."""
    write_text(path, render(report))
