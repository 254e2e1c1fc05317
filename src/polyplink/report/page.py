"""The pages of reports and of similar views: HTML files that load nothing from outside."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jinja2 import Environment
from numpy.typing import NDArray

from polyplink.core.artefacts import write_text
from polyplink.counting.result import CountedPolyp, CountedProcedure, CountedTracklet
from polyplink.data.files.images import data_uri, encode_jpeg
from polyplink.data.vocabulary import is_simulated
from polyplink.evaluate.intervals import FEWEST
from polyplink.report.contents import Report, ReportedProcedure, Values
from polyplink.report.formats import Texts, environment
from polyplink.report.plots import inline_svg, plot_epochs, plot_methods, plot_similarity
from polyplink.report.polyps import HUES, Matching, Polyp, Timeline, describe, layout, match

if TYPE_CHECKING:
    from polyplink.report.comparison import Comparison

MOST_IN_NOTEBOOK = 8  # procedures
MOST_QUESTIONS = 12  # questions listed
MOST_VIEWS = 12  # crops shown of a counted polyp
MOST_OF_SIDE = 2  # crops shown of either side of a question
VIEW = 160  # stored width and height of a crop, pixels; shown at 112, sharp on dense screens
QUALITY = 82  # of the crops' JPEG

Picture = NDArray[np.uint8] | None


class Strip(NamedTuple):
    """The views of a counted polyp."""

    polyp: Polyp
    counted: CountedPolyp
    pictured: list[CountedTracklet]  # those whose crops are on the page
    n_wrong: int


class Section(NamedTuple):
    """The section of a procedure on the page."""

    anchor: str
    procedure: ReportedProcedure
    tracklets: dict[str, CountedTracklet]  # by id
    matching: Matching
    timeline: Timeline
    strips: list[Strip]
    matrix: str | None  # SVG: similarities ordered by counted polyp, then time
    n_wrong: int
    alarms: list[CountedTracklet]  # false alarms whose crops are on the page


def write_report(path: Path, report: Report) -> None:
    """Write the page to `path`, atomically."""
    write_text(path, render(report))


def render(report: Report) -> str:
    """The report as a whole HTML document.

    The page contains its style, script and images. Its content security policy forbids all
    requests and all other scripts.
    """
    templates = _templates()
    script = templates.get_template("script.js").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return templates.get_template("report.html.j2").render(
        **_context(report),
        most=None,
        charts=training_charts(report.curves, report.best_epoch, Texts(report.language)),
        script_digest=digest,
    )


def render_fragment(report: Report) -> str:
    """The counts, figures and first procedures of a report as an HTML element for a notebook."""
    style = _templates().get_template("style.css.j2").render(hues=HUES)
    style = style.replace(":root", "&").replace("body {", "& {")  # nested in the element's rule
    return (
        _templates()
        .get_template("fragment.html.j2")
        .render(**_context(report), style=style, most=MOST_IN_NOTEBOOK)
    )


def write_matches(
    path: Path,
    title: str,
    query: Picture,
    rows: Sequence[Mapping[str, Any]],
    pictures: Sequence[Picture],
    *,
    notices: Sequence[str] = (),
) -> None:
    """Write a page of similar views of an index with their pictures.

    Args:
        path: The HTML file.
        title: Title of the page.
        query: Picture of the query (height, width, 3), if there is one.
        rows: The similar views.
        pictures: The pictures of the views.
        notices: Sentences under the title, beside those on simulated data and medical use.
    """
    page = _templates().get_template("matches.html.j2")
    views = list(zip(rows, pictures, strict=True))
    t = Texts("en")
    simulated = any(is_simulated(row["dataset"]) for row in rows)
    notices = [*[t("simulated")] * simulated, t("device"), *notices]
    write_text(path, page.render(title=title, query=query, views=views, notices=notices))


@cache
def _templates() -> Environment:
    """The templates, with the filters of the pages."""
    templates = environment()
    templates.filters |= {
        "px": lambda length: f"{length:.1f}".removesuffix(".0"),
        "look_class": lambda look: "unknown" if look is None else f"h{look.hue}",
        "jpeg": jpeg,
        "describe": describe,
    }
    return templates


def _context(report: Report) -> dict[str, Any]:
    """The variables of the templates of the summary and the procedures."""
    t = Texts(report.language)
    sections = [_section(index, p, t) for index, p in enumerate(report.procedures)]
    questions = [
        (section, question)
        for section in sections
        for question in questions_of(section.procedure.counted)
    ]
    questions.sort(key=lambda of_section: of_section[1].confidence)
    counted = [p.counted for p in report.procedures]
    doubtful = any(procedure.doubtful or procedure.doubtful_alarms for procedure in counted)
    with_truth = [p for p in report.procedures if p.n_polyps is not None]
    return {
        "report": report,
        "t": t,
        "sections": sections,
        "questions": questions[:MOST_QUESTIONS],
        "counted": sum(p.polyps for p in counted),
        "known": len(with_truth),  # procedures with a known number of polyps
        "counted_where_known": sum(p.counted.polyps for p in with_truth),
        "n_true": sum(p.n_polyps or 0 for p in with_truth),
        "n_questions": len(questions),
        "asked_below": None if doubtful else report.ask_below,
        "unlikely": any(
            question.confidence < 0.5 and question.text != "report.counted_polyp"
            for _, question in questions[:MOST_QUESTIONS]
        ),
        "alarms": sum(p.false_alarms for p in counted),
        "failed": sum(p.converged is False for p in counted),
        "intervals": any(p.low is not None for p in counted),
        "figures_with_sd": report.comparison is not None
        and any(
            figure.sd is not None
            for method in report.comparison.methods
            for figure in method.figures.values()
        ),
        "fewest": FEWEST,
        "comparison_plot": _methods_svg(report.comparison),
        "hues": HUES,
        "most_of_side": MOST_OF_SIDE,
    }


class ListedQuestion(NamedTuple):
    """A question of the report.

    Attributes:
        text: Key of what was counted.
        polyps: Names of the polyps that it is about, one or two.
        sides: Ids of the tracklets on each side, one or two.
        confidence: Probability that what was counted is right.
    """

    text: str
    polyps: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...]
    confidence: float


def questions_of(counted: CountedProcedure) -> list[ListedQuestion]:
    """The questions of a procedure: polyps that may be false alarms, the reverse, and links."""
    polyp_of = {
        tracklet.tracklet_id: polyp.polyp
        for polyp in counted.groups
        for tracklet in polyp.tracklets
    }
    links = [
        ListedQuestion(
            "report.counted_one" if question.joined else "report.counted_two",
            tuple(dict.fromkeys(polyp_of[side[0]] for side in (question.members, question.others))),
            (question.members, question.others),
            question.confidence,
        )
        for question in counted.to_look_at
    ]
    doubts = [
        ListedQuestion(
            "report.counted_polyp",
            (polyp.polyp,),
            (tuple(tracklet.tracklet_id for tracklet in polyp.tracklets),),
            doubt,
        )
        for polyp in counted.groups
        if (doubt := polyp.doubt) is not None
    ]
    left_out = [
        ListedQuestion("report.counted_none", (), ((alarm.tracklet_id,),), 1 - alarm.shows_polyp)
        for alarm in counted.doubtful_alarms
        if alarm.shows_polyp is not None
    ]
    return [*doubts, *left_out, *links]


def _methods_svg(comparison: "Comparison | None") -> str:
    """The plot of the headline figures as SVG; "" if there is nothing to draw."""
    if comparison is None or not (comparison.measured and comparison.first_metrics):
        return ""
    figure = plot_methods(comparison)[0].figure
    return inline_svg(figure, "Methods in the figures to look at first, with 95 % intervals")


def _section(index: int, procedure: ReportedProcedure, t: Texts) -> Section:
    """Match the polyps of a procedure, and draw its time line, views and similarities."""
    # The views of each polyp.
    matching, counted = match(procedure), procedure.counted
    strips = [
        Strip(
            matching.counted[polyp.polyp],
            polyp,
            most_doubtful(polyp.tracklets, matching),
            sum(map(matching.is_wrong, polyp.tracklets)),
        )
        for polyp in counted.groups
    ]

    # Their similarities.
    matrix = None
    if procedure.similarity is not None and counted.groups:
        axes = plot_similarity(
            np.asarray(procedure.similarity, dtype=np.float64),
            [len(polyp.tracklets) for polyp in counted.groups],
            [strip.polyp.label for strip in strips],
            [strip.polyp.look for strip in strips],
            t("report.similarity"),
        )
        name, n = counted.procedure_id, counted.tracklets
        label = t("report.similarities_of", procedure=name, n=n)
        matrix = inline_svg(axes.figure, label, decimal=t("decimal"))
    return Section(
        f"procedure-{index + 1}",
        procedure,
        {view.tracklet_id: view for view in (*procedure.tracklets, *counted.doubtful_alarms)},
        matching,
        layout(procedure, matching, t),
        strips,
        matrix,
        sum(strip.n_wrong for strip in strips),
        sorted(counted.alarms, key=lambda alarm: -(alarm.shows_polyp or 0.0))[:MOST_VIEWS],
    )


def most_doubtful(members: Sequence[CountedTracklet], matching: Matching) -> list[CountedTracklet]:
    """At most 12 tracklets of a polyp, in temporal order; wrong and least certain ones first."""

    def doubt(tracklet: CountedTracklet) -> tuple[bool, float]:
        return not matching.is_wrong(tracklet), tracklet.confidence or 0.0

    doubtful = sorted(members, key=doubt)[:MOST_VIEWS]
    return sorted(doubtful, key=lambda t: (t.first_frame, t.last_frame))


def training_charts(
    curves: Mapping[str, Values], best_epoch: int | None, t: Texts
) -> list[tuple[str, str, str]]:
    """Title, caption and SVG of the curves of loss, bag temperature and purity that have values."""
    charts: dict[str, tuple[dict[str, str], tuple[float, float] | None]] = {
        "loss": ({"loss": t("chart.train"), "validation_loss": t("chart.validation")}, None),
        "tau": ({"tau": "tau"}, None),
        "purity": ({"purity": t("chart.purity.series")}, (0.0, 1.02)),
    }
    drawn = []
    for kind, (names, limits) in charts.items():
        titles = {
            name: [
                t("chart.point", series=name, epoch=epoch, value=t.number(value, 4))
                for epoch, value in enumerate(curves.get(curve, ()))
                if value is not None and math.isfinite(value)
            ]
            for curve, name in names.items()
        }
        charted = {name: curves[curve] for curve, name in names.items() if titles[name]}
        if charted:
            title = t(f"chart.{kind}")
            axes = plot_epochs(
                charted,
                t(f"chart.{kind}.axis"),
                best_epoch=best_epoch,
                limits=limits,
                x_label=t("chart.epoch"),
            )
            label = t("chart.over_epochs", title=title)
            svg = inline_svg(axes.figure, label, titles, t("decimal"))
            drawn.append((title, t(f"chart.{kind}.caption"), svg))
    return drawn


def jpeg(crop: NDArray[np.uint8]) -> str:
    """A crop (height, width, 3) as a small JPEG data URI, neither side above `VIEW` pixels."""
    return data_uri(encode_jpeg(crop, VIEW, QUALITY))
