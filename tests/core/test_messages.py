"""The catalogue of texts: complete in every language, and without texts that no page uses."""

import re
from collections import Counter
from pathlib import Path

import pytest

import polyplink
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import LANGUAGES, Message, catalogue

SOURCE = Path(polyplink.__file__).parent
# Texts that are the same in English and another language.
SAME = {"de": {"polyp", "column.id", "column.polyp"}, "it": {"column.id"}}


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


def test_the_catalogue_has_exactly_the_texts_that_are_used() -> None:
    kinds, starts = used_in_programs()
    known = {kind for each in catalogue("en") for kind in (each, without_form(each))}
    unused = [
        kind
        for kind in catalogue("en")
        if not {kind, without_form(kind)} & kinds and not kind.startswith(tuple(starts))
    ]
    assert unused == []
    called = r"\b(?:Message|t|self)\(\s*\"([\w. ]+)\""
    called_kinds = set(re.findall(called, written(".py", ".j2", ".js")))
    called_kinds |= set(re.findall(r'\bcount\("([\w.]+)"', written(".js")))
    assert called_kinds - known == set()


def test_another_language_is_refused_in_one_line() -> None:
    with pytest.raises(PolyplinkError, match="no language 'xx'; choose among en, de, it"):
        Message("live.killed", {"clock": "1:00"}).text("xx")
