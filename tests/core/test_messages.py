"""The catalogue of texts: complete in every language, and without texts that no page uses."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import polyplink
from polyplink.associate.identities import recorded_point
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import LANGUAGES, Message, catalogue, text_of
from polyplink.encoders.weights import read_record, weights_path
from polyplink.models.shipped import ENCODER

SOURCE = Path(polyplink.__file__).parent
# Texts that no program writes any more, but that shipped weights hold.
STORED = {"origin.alarms_of_procedures"}
# Texts with a number that is always above 1.
SEVERAL = {
    "import.categories",
    "import.classes",
    "import.labels",
    "origin.alarms",
    "origin.alarms_of_procedures",
    "origin.alarms_of_stills",
    "polyp.show_all",
    "warnings.of_all",
}
# Texts that are the same in English and another language.
SAME = {"de": {"polyp", "column.id", "column.polyp"}, "it": {"column.id"}}


@cache
def written(*endings: str) -> str:
    """The contents of all source files with one of the endings."""
    paths = sorted(path for ending in endings for path in SOURCE.rglob(f"*{ending}"))
    return "\n".join(path.read_text() for path in paths)


def used_in_programs() -> tuple[set[str], set[str]]:
    """Kinds of texts that Python code, templates and scripts name, and beginnings of kinds."""
    programs, scripts = written(".py", ".j2"), written(".js")
    named = r"\b(?:Message|t|self)\(\s*f?\"([\w. ]+)"
    kinds = set(re.findall(rf"{named}\"", programs))
    kinds |= set(re.findall(r'"(\w+(?:\.\w+)+)"', programs))  # dotted, as one of a choice
    kinds |= set(re.findall(r'"([\w.]+)"', scripts))
    starts = set(re.findall(rf"{named}\{{", programs))
    starts |= set(re.findall(r"\bt\(`([\w.]+)\$", scripts))
    starts |= {f"{kind}." for kind in re.findall(r'\bcount\("([\w.]+)"', scripts)}
    return kinds, starts


def without_form(kind: str) -> str:
    return re.sub(r"\.(one|other)$", "", kind)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_all_languages_have_the_same_texts_with_the_same_values(language: str) -> None:
    english, texts = catalogue("en"), catalogue(language)
    assert list(texts) == list(english)
    for kind, text in texts.items():
        assert text, kind
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", english[kind])), kind
    words = re.compile(r"[a-z]{3}")
    same = {
        kind
        for kind, text in texts.items()
        if text == english[kind] and words.search(re.sub(r"{\w+}", "", text))
    }
    assert same == SAME[language]


def test_no_text_is_in_the_catalogue_twice() -> None:
    texts = zip(*(catalogue(language).values() for language in LANGUAGES), strict=True)
    repeated = [text for text, number in Counter(texts).items() if number > 1]
    assert repeated == []


def test_a_text_with_one_form_has_the_other() -> None:
    forms = Counter(without_form(kind) for kind in catalogue("en"))
    for kind in catalogue("en"):
        assert forms[without_form(kind)] == (1 if kind == without_form(kind) else 2), kind


def test_a_number_before_a_plural_has_a_singular_form() -> None:
    single_form = {
        kind: text for kind, text in catalogue("en").items() if without_form(kind) == kind
    }
    plural = {kind for kind, text in single_form.items() if re.search(r"{n} \w+s\b", text)}
    assert plural == SEVERAL


def test_the_catalogue_has_exactly_the_texts_that_are_used() -> None:
    kinds, starts = used_in_programs()
    catalogued = {kind for name in catalogue("en") for kind in (name, without_form(name))}
    unused = [
        kind
        for kind in catalogue("en")
        if not {kind, without_form(kind)} & kinds and not kind.startswith(tuple(starts))
    ]
    assert set(unused) == STORED
    called = r"\b(?:Message|t|self)\(\s*\"([\w. ]+)\""
    called_kinds = set(re.findall(called, written(".py", ".j2", ".js")))
    called_kinds |= set(re.findall(r'\bcount\("([\w.]+)"', written(".js")))
    called_kinds |= set(re.findall(r'"((?:import|place)\.[\w.]+)"', written(".py")))
    assert called_kinds - catalogued == set()


def messages_in_programs() -> Iterator[tuple[str, set[str]]]:
    """Kinds of messages in Python code, and the names of their values, where it names them all."""
    for text in (path.read_text() for path in SOURCE.rglob("*.py")):
        if not re.search(r"\b(Message|place_text)\(", text):
            continue
        for call in ast.walk(ast.parse(text)):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            kind = call.args[0] if call.args else None
            if not (isinstance(kind, ast.Constant) and isinstance(kind.value, str)):
                continue
            if call.func.id == "place_text":
                yield kind.value, {str(keyword.arg) for keyword in call.keywords}
            elif call.func.id == "Message" and len(call.args) == 1:
                yield kind.value, set()
            elif call.func.id == "Message" and isinstance(call.args[1], ast.Dict):
                keys = [key.value for key in call.args[1].keys if isinstance(key, ast.Constant)]
                if len(keys) == len(call.args[1].keys):
                    yield kind.value, {*map(str, keys)}


def test_a_message_has_the_values_of_its_sentence() -> None:
    english, checked = catalogue("en"), set()
    for kind, names in messages_in_programs():
        for form in {kind, f"{kind}.one", f"{kind}.other"} & {*english}:
            assert {*re.findall(r"{(\w+)}", english[form])} <= names, form
            checked.add(kind)
    assert len({kind for kind in checked if kind.startswith("import.")}) > 100


def test_an_importer_takes_every_warning_from_the_catalogue() -> None:
    """Only what an importer of a plugin writes is shown verbatim."""
    files = [path for path in (SOURCE / "data").rglob("*.py") if "Message.of(" in path.read_text()]
    assert [path.name for path in files] == ["importing.py"]


@pytest.mark.parametrize(
    ("stored", "german"),
    [
        (
            "links fitted on 2068 pairs of tracklets of 40 procedures; cross-fitted there: count "
            "off by 0.30 polyps on average, right in 70 %; 90 % intervals hold the true number in "
            "98 %",
            "Verknüpfungen angepasst an 2068 Paare von Ansichten aus 40 Untersuchungen; dort "
            "kreuzvalidiert: mittlere Abweichung der Zahl 0,30 Polypen, richtig in 70 %; "
            "90-%-Intervalle enthalten die wahre Zahl in 98 %",
        ),
        (
            "not tuned: no procedure has known polyps, and no procedure has two tracklets",
            "nicht abgestimmt: in keiner Untersuchung sind die Polypen bekannt, und keine "
            "Untersuchung hat zwei Ansichten",
        ),
        # A text with a part that is not known stays as it is.
        ("not tuned: no labels", "not tuned: no labels"),
        ("fitted on 40 procedures; here too", "fitted on 40 procedures; here too"),
    ],
)
def test_sentences_that_weights_store_are_shown_in_the_language(stored: str, german: str) -> None:
    assert text_of(stored, "de") == german
    assert text_of(stored) == stored
    assert Message("no_probabilities", {"why": stored}).text("de").endswith(f"({german}).")


def test_what_the_shipped_weights_say_of_their_fit_is_translated() -> None:
    record = read_record(weights_path(Path(ENCODER)))
    point = recorded_point(record.operating)
    assert point.alarms is not None
    assert point.alarms.origin.startswith("fitted on 5 groups of still images; cross-fitted")
    for language in LANGUAGES[1:]:
        for stored in (point.origin, point.alarms.origin):
            translated = text_of(stored, language)
            assert not {"fitted", "cross-fitted", "hold", "stay"} & {*translated.split()}, stored
            assert re.findall(r"\d+", translated) == re.findall(r"\d+", stored)


def test_numbers_have_the_decimal_sign_of_the_language() -> None:
    assert [text_of(0.5, language) for language in LANGUAGES] == ["0.5", "0,5", "0,5"]


def test_another_language_is_refused_in_one_line() -> None:
    with pytest.raises(PolyplinkError, match="no language 'xx'; choose among en, de, it"):
        Message("live.killed", {"clock": "1:00"}).text("xx")
