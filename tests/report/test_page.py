import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings

from polyplink.counting.result import CountedProcedure, CountedQuestion, CountedTracklet
from polyplink.evaluate.intervals import Figure
from polyplink.report.comparison import Comparison, FigureColumn, Method
from polyplink.report.contents import Report, ReportedProcedure
from polyplink.report.page import VIEW, jpeg, most_doubtful, render
from polyplink.report.polyps import match
from tests.report.sample import (
    HTML_INJECTION,
    ParsedPage,
    changed,
    comparison,
    counted,
    procedure,
    procedures,
    report,
)

EMPTY = Report("Nothing", "none", "today", "a machine")


def svgs(text: str) -> list[ElementTree.Element]:
    """Every drawing, read by a strict parser."""
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


@cache
def full_page() -> str:
    """A page with every section, drawn once for all tests."""
    return render(report())


def test_a_page_is_balanced_with_unique_ids_and_resolved_links() -> None:
    page = ParsedPage(full_page())
    assert page.balanced
    assert [tag for tag, _ in page.elements].count("main") == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("caption") == tags.count("table") > 3
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert ["open" in a for _, a in page.with_class("procedure")] == [True, False]


@pytest.mark.parametrize("draw", [full_page, lambda: render(EMPTY)], ids=["full", "empty"])
def test_a_page_loads_nothing_from_elsewhere(draw: Callable[[], str]) -> None:
    text = draw()
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    for tag, attributes in ParsedPage(text).elements:
        assert tag not in {"iframe", "object", "embed"}
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert all(part.startswith("#") for part in re.findall(r"url\((.*?)\)", text))
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for _, a in ParsedPage(text).elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert f"script-src 'sha256-{digest}'" in policy


def test_a_page_with_only_a_comparison_has_figures_and_no_counts() -> None:
    table = comparison().with_headline(["FPR"])
    with_deviation = {"FPR": Figure(0.05, 0.01, 0.09, n=10, sd=0.012)}
    seeds = Method("second", with_deviation)
    text = render(replace(EMPTY, comparison=replace(table, methods=(table.methods[0], seeds))))
    assert "0.050 ± 0.012" in text
    assert "standard deviation over seeds" in text
    assert "All 2 figures" in text
    links = {a["href"] for tag, a in ParsedPage(text).elements if tag == "a"}
    assert links == {"#figures", "#made"}
    assert "standard deviation" not in render(replace(EMPTY, comparison=table))


def test_polyps_that_may_be_false_alarms_are_among_the_questions() -> None:
    case = procedure()
    first, *others = case.counted.groups
    doubtful = replace(first, tracklets=tuple(replace(t, shows_polyp=0.3) for t in first.tracklets))
    asked = changed(case, groups=(doubtful, *others))
    page = ParsedPage(render(replace(EMPTY, procedures=(asked,))))
    assert "Counted as a polyp: is it? 30 % likely" in page.words
    assert page.words.index("Counted as a polyp") < page.words.index("Counted as two polyps")
    # What is said of links alone is not said of polyps.
    (link,) = asked.counted.to_look_at
    for one_polyp, ask_below in ((0.4, None), (0.4, 0.9), (0.8, None)):
        mixed = changed(asked, to_look_at=(replace(link, probability_of_one_polyp=one_polyp),))
        report = replace(EMPTY, procedures=(mixed,), ask_below=ask_below)
        words = ParsedPage(render(report)).words
        assert "2open questions: views to check" in words
        assert ("below 50 %" in words) == (one_polyp > 0.5)
    # So are false alarms that may be polyps.
    left_out = CountedTracklet("left-out", 5, 9, shows_polyp=0.45, in_doubt=True)
    also = changed(case, alarms=(left_out, replace(left_out, in_doubt=False)))
    words = ParsedPage(render(replace(EMPTY, procedures=(also,)))).words
    assert "Left out as a false alarm: is it one? 55 % likely" in words
    assert "2open questions: views to check" in words
    without = ParsedPage(render(replace(EMPTY, procedures=(case,)))).words
    assert "Counted as a polyp" not in without
    assert "1open question: views to check" in without


def test_texts_from_data_are_escaped() -> None:
    polyps = {
        HTML_INJECTION: (CountedTracklet(HTML_INJECTION, 0, 9, confidence=0.5),),
        "x": (CountedTracklet("t", 20, 29),),
    }
    questions = (CountedQuestion((HTML_INJECTION,), ("t",), False, 0.9),)
    hostile_procedure = ReportedProcedure(
        counted(HTML_INJECTION, polyps, converged=False, to_look_at=questions),
        100,
        25.0,
        2,
        {HTML_INJECTION: HTML_INJECTION, "t": "other"},
        similarity=np.ones((2, 2)),
    )
    metric = FigureColumn(
        "m", HTML_INJECTION, HTML_INJECTION, 1.0, HTML_INJECTION, HTML_INJECTION, "reference"
    )
    table = Comparison(
        (metric,), (Method(HTML_INJECTION, {"m": Figure(None, why=HTML_INJECTION)}),)
    )
    texts: Any = dict.fromkeys(
        ("title", "dataset", "date", "machine", "weights", "crops"), HTML_INJECTION
    )
    any_report = Report(
        **texts,
        seed=1,
        simulated=True,
        version=HTML_INJECTION,
        procedures=(hostile_procedure,),
        comparison=table,
        curves={"loss": (1.0,)},
        operating_point=(("method", HTML_INJECTION), (HTML_INJECTION, 1.0)),
        settings={HTML_INJECTION: HTML_INJECTION},
        seconds=((HTML_INJECTION, 1.0),),
        notes=(HTML_INJECTION,),
        warnings=(HTML_INJECTION,),
    )
    text = render(any_report)
    page = ParsedPage(text)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert "<script>alert" not in text
    assert page.balanced
    assert page.words.count("alert('x')") > 15
    assert len(svgs(text)) == 4  # patterns, time line, matrix, loss
    assert not [name for _, a in page.elements for name in a if name.startswith("on")]


def test_every_tracklet_is_shown_and_described_for_screen_readers() -> None:
    text = render(replace(EMPTY, procedures=(procedure(),)))
    timeline = next(s for s in svgs(text) if s.get("class") == "timeline")
    tracklets = [g for g in timeline.iter("g") if g.get("class") == "tracklet"]
    assert len(tracklets) == 2 * 5  # counted and true
    assert all(g.find("title") is not None for g in tracklets)
    assert len([p for p in timeline.iter("path") if p.get("class") == "cross"]) == 1
    assert len([r for r in timeline.iter("rect") if r.get("class") == "wrong"]) == 2
    page = ParsedPage(text)
    assert len(page.with_class("view")) == 5 + 3  # in strips and in the question
    assert all("alt" in a for tag, a in page.elements if tag == "img")
    assert len([e for e in page.with_class("view") if "wrong" in e[1]["class"].split()]) == 2
    for svg in svgs(full_page()):
        assert svg.get("aria-hidden") == "true" or svg.get("aria-label")


def test_the_header_names_the_data_and_warns() -> None:
    words = ParsedPage(full_page()).words
    for part in ("Simulated data: says nothing about patients", "not a medical device"):
        assert part in words
    for part in ("made-up data", "w123", "c456", "a machine", "2025-01-02"):
        assert part in words
    assert "Grouping the views into polyps did not settle for p1." in words
    assert "1 of 2 procedures" in words
    assert words.count("check this count before you use it") == 1
    real = render(EMPTY)
    assert "Simulated data" not in real
    assert "not a medical device" in real
    annotated, unannotated = procedure("p0"), replace(procedure("p1"), n_polyps=None)
    words = ParsedPage(render(replace(EMPTY, procedures=(annotated, unannotated)))).words
    assert "6polyps counted in 2 procedures" in words
    assert "2true polyps where known (1 of 2 procedures; 3 counted there)" in words


def test_best_figures_are_marked_and_missing_ones_have_a_reason() -> None:
    text = full_page()
    assert re.findall(r'<span class="value best">(.*?)</span>', text) == ["0.700"]
    page = ParsedPage(text)
    assert "0.600 to 0.800 · n 19" in page.words
    assert "Δ +0.200 (0.100 to 0.300)" in page.words
    assert "in the published programs (FPR)" in page.words
    strict = Comparison(
        tuple(replace(m, style="honest") for m in comparison().metrics), comparison().methods
    )
    assert "A tracklet is never paired with itself" in render(replace(EMPTY, comparison=strict))
    metric = FigureColumn("m", "m", "g", 1.0)
    methods = (Method("a", {"m": Figure(float("nan"), why="one polyp only")}), Method("b", {}))
    page = ParsedPage(render(replace(EMPTY, comparison=Comparison((metric,), methods))))
    titles = [attributes["title"] for _, attributes in page.with_class("missing")]
    assert all(titles)
    assert {"one polyp only", "not measured for this method"} <= set(titles)


def test_empty_sections_say_that_they_are_empty() -> None:
    page = ParsedPage(render(EMPTY))
    assert page.balanced
    for part in ("No procedure was read", "Nothing was recorded"):
        assert part in page.words
    empty_sections = replace(
        EMPTY,
        procedures=(ReportedProcedure(CountedProcedure("p"), 10),),
        comparison=Comparison((), ()),
        curves={"loss": ()},
    )
    words = ParsedPage(render(empty_sections)).words
    for part in ("No view", "No method was measured", "No curve was recorded"):
        assert part in words
    without_similarities = replace(procedure(), similarity=None)
    text = render(replace(EMPTY, procedures=(without_similarities,), curves={"loss": (1.0, None)}))
    assert "No similarities were given." in text
    assert text.count('class="plot"') == 1  # one of three curves has values


def test_the_epoch_of_the_weights_is_named_and_marked_in_every_curve() -> None:
    trained = replace(EMPTY, curves=report().curves)
    marked, plain = (render(replace(trained, best_epoch=epoch)) for epoch in (2, None))
    sentence = "Dotted vertical line: epoch 2, of which the weights were kept."
    assert sentence in ParsedPage(marked).words
    assert "Dotted vertical line" not in ParsedPage(plain).words
    assert marked.count("stroke-dasharray") == plain.count("stroke-dasharray") + 3


@given(procedures())
@settings(max_examples=8)
def test_random_procedures_give_balanced_pages(case: ReportedProcedure) -> None:
    text = render(replace(EMPTY, procedures=(case,)))
    assert ParsedPage(text).balanced
    assert len(svgs(text)) == (2 if case.tracklets else 1)


def test_crops_are_stored_small() -> None:
    ramp = np.linspace(0, 255, 300, dtype=np.uint8)
    image = np.repeat(np.repeat(ramp[None, :, None], 200, axis=0), 3, axis=2)
    uri = jpeg(image)
    assert uri.startswith("data:image/jpeg;base64,")
    decoded = simplejpeg.decode_jpeg(base64.b64decode(uri.partition(",")[2]))
    assert decoded.shape == (107, VIEW, 3)
    assert np.abs(np.linspace(0, 255, VIEW)[None, :, None] - decoded).mean() < 3


def test_a_long_strip_keeps_wrong_and_least_certain_views() -> None:
    members = [
        CountedTracklet(f"t{i}", 100 * i, 100 * i + 50, confidence=0.9 - 0.01 * i)
        for i in range(20)
    ]
    members[0] = replace(members[0], confidence=1.0)
    members[1] = replace(members[1], confidence=None)
    members[2] = replace(members[2], confidence=0.0)
    true_polyps = {tracklet.tracklet_id: "a" for tracklet in members} | {"t0": "b"}
    case = ReportedProcedure(counted("p", {"x": members}), 3000, true_polyps=true_polyps)
    views = most_doubtful(members, match(case))
    assert [t.tracklet_id for t in views] == [f"t{i}" for i in (0, 1, 2, *range(11, 20))]
    assert "the 12 least certain shown" in render(replace(EMPTY, procedures=(case,)))


def test_links_of_all_procedures_are_listed_least_certain_first() -> None:
    procedures_with_links = []
    for name, confidence in (("p0", (0.3, 0.1)), ("p1", (0.2, 0.45))):
        links = tuple(CountedQuestion(("t0", "t1", "t2"), ("t3",), True, p) for p in confidence)
        procedures_with_links.append(changed(procedure(name), to_look_at=links))
    text = render(replace(EMPTY, procedures=tuple(procedures_with_links)))
    link_list = text[text.index('<ol class="pairs">') : text.index("</ol>")]
    assert re.findall(r">(\d+ %) likely<", link_list) == ["10 %", "20 %", "30 %", "45 %"]
    assert link_list.count("and 1 more") == 4  # two views of each side
    assert link_list.count("<figure") == 4 * 3
    # The folder of an evaluation cannot be reviewed.
    evaluation = replace(EMPTY, procedures=tuple(procedures_with_links), comparison=comparison())
    assert ["polyplink review" in page for page in (text, render(evaluation))] == [True, False]
