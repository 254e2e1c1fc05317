"""Messages about a count, in every language: a kind of message and its values.

A count carries messages instead of sentences, so that every page can show them in its language.
`messages.json` holds the sentences by language and kind. A kind with a number `n` may have two
forms, `KIND.one` and `KIND.other`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

LANGUAGES = ("en", "de", "it")
OTHER = "other"  # kind of a sentence that is in no catalogue and is shown verbatim


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
        """The sentence of the message in a language.

        Example:
            >>> Message("live.left_out", {"n": 1}).text()
            '1 frame was left out because its time went backwards.'
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
