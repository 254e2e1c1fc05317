"""The report of a count in every language: no text of a page is left in English."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

from polyplink import __version__
from polyplink.associate.clusterers import LearnedLinks, TemporalAP
from polyplink.associate.identities import OperatingPoint
from polyplink.core.messages import Message, text_of
from polyplink.counting.result import CountedQuestion, CountedTracklet
from polyplink.data.faults import Faults
from polyplink.report.contents import (
    Report,
    ReportedProcedure,
    named_stages,
    setting_facts,
)
from polyplink.report.page import MOST_VIEWS, render, render_fragment
from tests.report.sample import ParsedPage, counted, procedure, report

# Words that stay: of commands, settings and units; terms that are the same in a language.
TYPED = {
    "polyplink",
    "review",
    "alarms",
    "keep",
    "alpha",
    "gamma",
    "preference",
    "tau",
    "psi",
    "min",
}
TERMS = {"affinity", "propagation", "temporally", "aware", "counting", "bag"}
ALLOWED = {
    "de": TYPED | TERMS | {"bags", "encoder", "nats", "polyp"},
    "it": TYPED | TERMS | {"adenoma", "area", "file", "per", "software"},
}
SEEN_ATTRIBUTES = ("title", "alt", "aria-label", "placeholder")


class SeenTexts(HTMLParser):
    """The texts of a page that a reader sees or hears."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.hidden = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden = tag in {"style", "script"}
        self.texts += [text or "" for name, text in attrs if name in SEEN_ATTRIBUTES]

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.texts.append(data)

    @property
    def lines(self) -> list[str]:
        """The lines of all texts."""
        return [line for text in self.texts for line in text.split("\n")]


def reports() -> list[Report]:
    """Counts with every section, every remark, and every thing that can be missing."""
    full = procedure("DATA-A", "DATA-")
    t = [
        replace(tracklet, bridged=0.25 * (tracklet.tracklet_id == "DATA-t0"))
        for tracklet in full.tracklets
    ]
    alarms = tuple(
        CountedTracklet(f"DATA-{i}", 2 * i, 2 * i + 1, shows_polyp=i / 20, in_doubt=i == 9)
        for i in range(MOST_VIEWS + 2)
    )
    grey = full.crops["DATA-t0"]
    apart = CountedQuestion(("DATA-t1",), ("DATA-t0", "DATA-t2", "DATA-t3"), False, 0.6)
    joined = CountedQuestion(("DATA-t3",), ("DATA-t4",), True, 0.2)
    doubtful = replace(t[2], shows_polyp=0.71)
    polyps = {"y": (t[0], *t[3:]), "x": t[1:2], "z": (doubtful,)}  # the first is wrong
    annotated = counted(
        "DATA-A",
        polyps,
        low=2,
        high=4,
        converged=False,
        alarms=alarms,
        to_look_at=(apart, joined),
    )
    x = replace(annotated.groups[1], size_mm=5.2, size_low_mm=3.1, size_high_mm=8.7, adenoma=0.72)
    annotated = replace(annotated, groups=(annotated.groups[0], x, annotated.groups[2]))
    pictures = dict.fromkeys([tracklet.tracklet_id for tracklet in (*t[1:], *alarms)], grey)
    many_views = [CountedTracklet(f"DATA-t{i}", 9 * i, 9 * i + 5) for i in range(MOST_VIEWS + 1)]
    unknown = counted("DATA-B", {"x": many_views}, low=1, high=1, converged=True)
    without_views = counted("DATA-D", {}, alarms=alarms[:1])
    procedures = (
        replace(full, counted=annotated, crops=pictures),
        ReportedProcedure(unknown, 3000),
        ReportedProcedure(counted("DATA-C", {}), 100, n_polyps=1),
        ReportedProcedure(without_views, 100, n_polyps=1, crops=pictures),
    )
    origin = "links fitted on 2068 pairs of tracklets of 40 procedures; cross-fitted there: count "
    origin += "off by 0.33 polyps on average, right in 70 %"
    learned = OperatingPoint(LearnedLinks(0.25), None, origin, {"count": 0.25, "link": 0.25}, 2.0)
    temporal = OperatingPoint(TemporalAP(0.5, 1.0, -0.5), None, "DATA-1", form="raw_l2")
    faults = Faults()
    for name in ("DATA-1", "DATA-2"):
        faults.fault(
            Message("import.no_area"), Message("place.line", {"file": name, "number": 3}), ""
        )
        faults.warn(Message("import.unknown_column", {"table": "DATA-1"}), name)
    recorded = replace(
        report(),
        title=Message("report.title"),
        dataset="DATA-1",
        date="2025-01-02",
        machine=Message("report.computer", {"system": "DATA-1", "processor": "DATA-2", "n": 4}),
        weights="DATA-1",
        crops="DATA-2",
        comparison=None,
        procedures=procedures,
        operating_point=setting_facts(learned),
        seconds=named_stages({"embed": 1.5, "associate": 200.0}),
        warnings=(
            Message("probes_simulated"),
            Message("counted_none", {"n": 1, "names": "DATA-1", "why": [Message("no_box")]}),
            *(Message("boxes_read", {"line": line}) for line in faults.messages),
        ),
        notes=(
            Message("notes.left_out", {"lines": [Message("alarms_left_out", {"n": 2})]}),
            Message("notes.models", {"models": [Message("model.encoder", {"name": "DATA-1"})]}),
        ),
        basis=Message(
            "cover.given",
            {
                "material": Message("material.recordings", {"n": 12}),
                "boxes": Message("boxes.annotated"),
            },
        ),
        ask_below=0.9,
    )
    facts = setting_facts(temporal)
    other_point = replace(recorded, procedures=(), curves={}, operating_point=facts)
    alone = ReportedProcedure(
        counted("DATA-A", {"x": full.tracklets[:1]}, converged=True),
        3000,
        25.0,
        2,
        {"DATA-t0": "DATA-a"},
        full.crops,
        np.ones((1, 1)),
    )
    return [
        recorded,
        replace(other_point, ask_below=None, seed=None),
        Report("DATA-1", "DATA-2", "2025", "DATA-3", procedures=(alone,)),
        Report("DATA-1", "DATA-2", "2025", "DATA-3", curves={"loss": ()}),
    ]


def words(line: str) -> set[str]:
    """The words of a line, without names from data."""
    return set(re.findall(r"[a-z]{3,}", re.sub(r"DATA-\w+", "", line).lower()))


REPORTS = dict(zip(("learned links", "temporal", "one view", "nothing"), reports(), strict=True))


@cache
def drawn(kind: str, language: str, draw: Callable[[Report], str] = render) -> str:
    """A page of `REPORTS`, drawn once for all tests."""
    return draw(replace(REPORTS[kind], language=language))


def left_in_english(english: str, translated: str, language: str) -> set[str]:
    """Words that are also in the same place of the English page, but may not be."""
    untranslated = set[str]()
    lines = (SeenTexts(page).lines for page in (english, translated))
    for line, translated_line in zip(*lines, strict=True):
        untranslated |= words(line) & words(translated_line) - ALLOWED[language]
    return untranslated


@pytest.mark.parametrize("kind", REPORTS)
def test_pages_of_all_languages_have_the_same_elements_and_no_text_left_in_english(
    kind: str,
) -> None:
    pages = [ParsedPage(drawn(kind, name)) for name in ("en", "de", "it")]
    assert all(page.balanced for page in pages)
    english, *others = ([tag for tag, _ in page.elements] for page in pages)
    assert others == [english, english]
    assert [page.elements[0][1] for page in pages] == [
        {"lang": name} for name in ("en", "de", "it")
    ]
    for language in ("de", "it"):
        for draw in (render, render_fragment):
            texts = drawn(kind, "en", draw), drawn(kind, language, draw)
            assert left_in_english(*texts, language) == set()


def test_a_text_that_is_left_in_english_is_reported() -> None:
    untranslated = replace(REPORTS["nothing"], notes=("Left in English.",))
    page = render(replace(untranslated, language="de"))
    assert left_in_english(render(untranslated), page, "de") == {"left", "english"}


def test_what_links_were_fitted_on_is_in_the_language_of_the_page() -> None:
    for language, text in (
        ("en", "links fitted on 2068 pairs of tracklets of 40 procedures; "),
        ("de", "Verknüpfungen angepasst an 2068 Paare von Ansichten aus 40 Untersuchungen; "),
        ("it", "collegamenti adattati a 2068 coppie di sequenze di 40 esami; "),
    ):
        assert text in drawn("learned links", language)


def test_numbers_have_the_decimal_sign_of_the_language() -> None:
    text = drawn("learned links", "de")
    points = [line for line in SeenTexts(text).lines if re.search(r"\d\.\d", line)]
    assert {line.replace(__version__, "") for line in points} == {
        line.replace(__version__, "") for line in points if __version__ in line
    }
    for part in ("etwa 5,2 mm (3,1 bis 8,7)", "<td>0,250</td>", "<td>1,5 s</td>", ">1,00</text>"):
        assert part in text, part


@pytest.mark.parametrize(
    ("spread", "margin", "lone", "english", "german"),
    [
        (1.0, 1, 1, "the count; plus and minus 1 polyp", "die Zahl; plus und minus 1 Polyp"),
        (
            2.5,
            0,
            0,
            "the counts while that price varies by a factor of up to 2.5",
            "die Zahlen, wenn dieser Preis um einen Faktor bis 2,5 variiert",
        ),
        (
            1.0,
            0,
            1,
            "the count; a single number plus and minus 1 polyp",
            "die Zahl; eine einzelne Zahl plus und minus 1 Polyp",
        ),
    ],
)
def test_the_report_says_how_an_interval_is_made(
    spread: float, margin: int, lone: int, english: str, german: str
) -> None:
    point = OperatingPoint(LearnedLinks(0.1), None, "", spread=spread, margin=margin, lone=lone)
    facts = {text_of(name): value for name, value in setting_facts(point)}
    assert text_of(facts["90 % interval"]) == english
    assert text_of(facts["90 % interval"], "de") == german


def test_the_report_names_the_purposes_of_the_price() -> None:
    prices = {"count": 0.1, "link": 0.1, "published": 2.0}
    facts = setting_facts(OperatingPoint(LearnedLinks(0.1), None, "", prices))
    purposes = [Message("purpose.count"), Message("purpose.link")]
    assert (Message("fact.chosen"), purposes) in facts
