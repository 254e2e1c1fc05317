"""What is said of a count, in every language: a kind of message and its values.

A count carries messages and not sentences, so that every page can say them in its own language.
The sentences are in `messages.json`: by language, by kind. A kind with a number `n` may have two
forms, `KIND.one` and `KIND.other`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

LANGUAGES = ("en", "de", "it")
OTHER = "other"  # the kind of a sentence that is in no catalogue; it is said as it is


@dataclass(frozen=True)
class Message:
    """Something that is said of a count.

    Attributes:
        kind: Its name in the catalogue.
        values: What stands in its sentence, by name: numbers, words, or other messages.
    """

    kind: str
    values: Mapping[str, "str | int | float | Message | Sequence[Message]"] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, line: "str | Message") -> "Message":
        """A message; a sentence that is in no catalogue is said as it is."""
        return line if isinstance(line, Message) else cls(OTHER, {"text": line})

    def text(self, language: str = "en") -> str:
        """Its sentence.

        Example:
            >>> Message("live.late", {"n": 1}).text()
            '1 frame came too late and was dropped (a faster detector helps).'
        """
        if self.kind == OTHER:
            return str(self.values["text"])
        sentences = _catalogue(language)
        form = self.kind
        if form not in sentences:
            form += ".one" if self.values.get("n") == 1 else ".other"

        def filled(match: re.Match[str]) -> str:
            return _text_of(self.values[match[1]], language)

        return re.sub(r"\{(\w+)\}", filled, sentences[form])

    def __str__(self) -> str:
        return self.text()


def _text_of(value: object, language: str) -> str:
    if isinstance(value, Message):
        return value.text(language)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_text_of(item, language) for item in value)
    return str(value)


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Sentences of messages by language and kind."""
    path = files("polyplink.core").joinpath("messages.json")
    sentences: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8"))
    return sentences


def _catalogue(language: str) -> Mapping[str, str]:
    catalogues = catalogue()
    return catalogues.get(language, catalogues["en"])


def in_every_language(messages: Sequence[Message]) -> dict[str, list[str]]:
    """The sentences of messages, by language."""
    return {name: [message.text(name) for message in messages] for name in LANGUAGES}
