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
from polyplink.associate.identities import OperatingPoint, Question
from polyplink.associate.probes import Reading
from polyplink.core.messages import Message, text_of
from polyplink.data.faults import Faults, place_of
from polyplink.report.contents import (
    Report,
    ReportedProcedure,
    ReportedTracklet,
    named_stages,
    setting_facts,
)
from polyplink.report.page import MOST_VIEWS, render, render_fragment
from tests.report.sample import ParsedPage, procedure, report, tracklet

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


def named(case: ReportedProcedure, name: str) -> ReportedProcedure:
    """A procedure with names that are recognised as data."""
    members = tuple(
        replace(
            one,
            tracklet_id=f"DATA-{name}{one.tracklet_id}",
            polyp_id=None if one.polyp_id is None else f"DATA-{one.polyp_id}",
        )
        for one in case.tracklets
    )
    return replace(case, procedure_id=f"DATA-{name}", tracklets=members)


def reports() -> list[Report]:
    """Counts with every section, every remark, and every thing that can be missing."""
    full = procedure()
    wrong = replace(full.tracklets[0], bridged=0.25, predicted="y", crop=None)
    alarms = tuple(
        replace(tracklet(f"DATA-{i}", 2 * i, 2 * i + 1, ""), confidence=i / 20)
        for i in range(MOST_VIEWS + 2)
    )
    apart = Question((1,), (0, 2, 3), False, 0.6, (1, 0))
    joined = Question((3,), (4,), True, 0.2, (3, 4))
    many_views = tuple(
        ReportedTracklet(f"t{i}", 9 * i, 9 * i + 5, "x") for i in range(MOST_VIEWS + 1)
    )
    known = replace(
        full,
        tracklets=(wrong, *full.tracklets[1:]),
        questions=(apart, joined),
        alarms=alarms,
        interval=(2, 4),
        converged=False,
        readings={"x": Reading(5.2, 3.1, 8.7, adenoma=0.72)},
    )
    unknown = ReportedProcedure("", 3000, many_views, interval=(1, 1), converged=True)
    without_views = ReportedProcedure("", 100, (), n_polyps=1)
    procedures = (
        named(known, "A"),
        named(unknown, "B"),
        named(without_views, "C"),
        named(replace(without_views, alarms=alarms[:1]), "D"),
    )
    origin = "links fitted on 2068 pairs of tracklets of 40 procedures; cross-fitted there: count "
    origin += "off by 0.33 polyps on average, right in 70 %"
    learned = OperatingPoint(LearnedLinks(0.25), None, origin, {"count": 0.25, "link": 0.25}, 2.0)
    temporal = OperatingPoint(TemporalAP(0.5, 1.0, -0.5), None, "DATA-1", form="raw_l2")
    faults = Faults()
    for name in ("DATA-1", "DATA-2"):
        faults.fault(Message("import.no_area"), place_of(f"{name}, line 3"), "")
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
    alone = replace(full, tracklets=full.tracklets[:1], similarity=np.ones((1, 1)), questions=())
    return [
        recorded,
        replace(other_point, ask_below=None, seed=None),
        Report("DATA-1", "DATA-2", "2025", "DATA-3", procedures=(named(alone, "A"),)),
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
    left = set[str]()
    lines = (SeenTexts(page).lines for page in (english, translated))
    for line, translated_line in zip(*lines, strict=True):
        left |= words(line) & words(translated_line) - ALLOWED[language]
    return left


@pytest.mark.parametrize("kind", REPORTS)
def test_pages_of_all_languages_have_the_same_elements_and_no_text_left_in_english(
    kind: str,
) -> None:
    pages = [ParsedPage(drawn(kind, name)) for name in ("en", "de", "it")]
    assert all(one.balanced for one in pages)
    english, *others = ([tag for tag, _ in one.elements] for one in pages)
    assert others == [english, english]
    assert [one.elements[0][1] for one in pages] == [{"lang": name} for name in ("en", "de", "it")]
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
