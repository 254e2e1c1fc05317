"""The texts of all pages in every language, looked up by key: warnings, words, whole sentences.

A count carries messages instead of sentences, so that every page can show them in its language.
`languages/en.json` and its translations hold the sentences by kind. A kind with a number `n` may
have two forms, `KIND.one` and `KIND.other`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

from polyplink.core.errors import PolyplinkError

Language = Literal["en", "de", "it"]
LANGUAGES: tuple[str, ...] = get_args(Language)
OTHER = "other"  # kind of a sentence that is in no catalogue and is shown verbatim
# Kinds of messages that a procedure was not counted to its end, which come before all others.
BROKE_OFF = frozenset(
    f"live.{name}"
    for name in ("broke_off", "cut_short", "ended", "failed", "killed", "stalled", "stopped")
)


@dataclass(frozen=True)
class Message:
    """A message about a count.

    Attributes:
        kind: Name of its sentence in the catalogue.
        values: Numbers, words or other messages to fill into the sentence, by name.
    """

    kind: str
    values: Mapping[str, "str | int | float | Message | Sequence[Message]"] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, line: "str | Message") -> "Message":
        """The message itself, or one that shows a sentence verbatim."""
        return line if isinstance(line, Message) else cls(OTHER, {"text": line})

    def text(self, language: str = "en") -> str:
        """The sentence of the message in a language; numbers have its decimal sign.

        Raises:
            PolyplinkError: If the language is not supported.

        Example:
            >>> Message("live.left_out", {"n": 1}).text()
            '1 frame was left out because its time went backwards.'
        """
        if self.kind == OTHER:
            return text_of(self.values["text"], language)
        sentences = catalogue(language)
        form = self.kind
        if form not in sentences:
            form += ".one" if self.values.get("n") == 1 else ".other"

        def filled(match: re.Match[str]) -> str:
            return text_of(self.values[match[1]], language)

        return re.sub(r"\{(\w+)\}", filled, sentences[form])

    def __str__(self) -> str:
        return self.text()


def text_of(value: object, language: str = "en") -> str:
    """A value of a message as text: messages in the language, numbers with its decimal sign."""
    if isinstance(value, Message):
        return value.text(language)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(text_of(item, language) for item in value)
    if isinstance(value, float):
        return f"{value:g}".replace(".", catalogue(language)["decimal"])
    text = str(value)
    return text if language == "en" else _translate(text, language) or text


def _translate(text: str, language: str) -> str | None:
    """A text that weights store, in another language; None if it is not from the catalogue.

    Weights store in English what their links, filter and probes were fitted on: sentences with
    `origin.` in the catalogue, joined by "; ".
    """
    translated = []
    for clause in text.split("; "):
        matches = ((kind, pattern.fullmatch(clause)) for kind, pattern in _stored_sentences())
        kind, match = next(((kind, match) for kind, match in matches if match), ("", None))
        if match is None:
            return None
        values = dict[str, str | int]()
        for name, value in match.groupdict().items():
            in_language = (
                value.replace(".", catalogue(language)["decimal"])
                if re.fullmatch(r"[\d.]+", value)
                else _translate(value, language)
            )
            if in_language is None:
                return None
            values[name] = int(value) if name == "n" else in_language
        translated.append(Message(kind, values).text(language))
    return "; ".join(translated)


@cache
def _stored_sentences() -> Sequence[tuple[str, re.Pattern[str]]]:
    """Kinds and patterns of the English sentences that weights store."""
    patterns = []
    for kind, sentence in catalogue("en").items():
        if kind.startswith("origin."):
            pattern = re.escape(sentence).replace(r"\{why\}", "(?P<why>.+)")
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>\\d+(?:[.]\\d+)?)", pattern)
            patterns.append((re.sub(r"\.(one|other)$", "", kind), re.compile(pattern)))
    return patterns


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """The texts of a language by kind.

    Raises:
        PolyplinkError: If the language is not supported.
    """
    if language not in LANGUAGES:
        raise PolyplinkError(
            f"no language {language[:20]!r}", f"choose among {', '.join(LANGUAGES)}"
        )
    path = files("polyplink.core").joinpath("languages", f"{language}.json")
    texts: dict[str, str] = json.loads(path.read_text("utf-8"))
    return texts


def in_every_language(messages: Sequence[Message]) -> dict[str, list[str]]:
    """The sentences of messages, by language."""
    return {name: [message.text(name) for message in messages] for name in LANGUAGES}
