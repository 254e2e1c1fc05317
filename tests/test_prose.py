"""Words that a native technical writer would not use are refused in pages and in messages.

A word of the list is no mistake of grammar: it marks a sentence that a reader has to decode.
Rewrite the sentence; `ALLOWED` is for terms. CONTRIBUTING.md has the rules of style.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
# The changelog says what was written for a version.
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - {ROOT / "CHANGELOG.md"})
WORDS = {  # and what to write instead
    "at hand": "available",
    "found": "detected, measured, reported",
    "go on": "continue",
    "goes on": "continues",
    "hardly": "almost no, little",
    "likewise": "the same, also",
    "mend": "fix",
    "mends": "fixes",
    "one's": "your, or the noun",
    "own": "the noun, separate, or nothing",
    "sureness": "confidence",
    "taken for": "counted as, mistaken for",
    "tell": "distinguish, show",
    "told": "reported, distinguished",
    "whoever": "anyone who",
    "whose": "with",
}
LEFT_TO_MESSAGES = {"own", "whose"}  # still common there
ALLOWED = (
    "IProgress not found",  # a warning of another library
    "polyps found",  # a figure of `count --truth`
    "your own",
    "its own",
    "their own",
)
EXAMPLES = re.compile(r"<!-- before and after -->.*?<!-- end -->", re.S)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.M | re.S)
REFUSED = re.compile(rf"\b(?:{'|'.join(ALLOWED)}|({'|'.join(WORDS)}))\b", re.I)


def refused(text: str) -> list[tuple[int, str]]:
    """Line (from 1) and word of each refused word of a text."""
    return [
        (text.count("\n", 0, match.start()) + 1, match[1].lower())
        for match in REFUSED.finditer(text)
        if match[1]
    ]


def prose(page: str) -> str:
    """A page without code and examples, with the same lines."""
    for pattern in (EXAMPLES, CODE):
        page = pattern.sub(lambda match: "\n" * match[0].count("\n"), page)
    return page


def messages(source: str) -> list[tuple[int, str]]:
    """Line and text of a file's strings of several words, docstrings excepted."""
    tree = ast.parse(source)
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if " " in node.value and id(node) not in documented
    ]


def test_pages_are_written_in_plain_words() -> None:
    assert refused(prose("One's `own`\n```\ntold\n```\nis found in your own")) == [
        (1, "one's"),
        (5, "found"),
    ]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word}: {WORDS[word]}"
        for path in PAGES
        for line, word in refused(prose(path.read_text(encoding="utf-8")))
    ]
    assert not wrong, "\n".join(wrong)


def test_messages_are_written_in_plain_words() -> None:
    assert messages('"""A doc."""\nx = f"is told {x}"\n') == [(2, "is told ")]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word}: {WORDS[word]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in messages(path.read_text(encoding="utf-8"))
        for _, word in refused(text)
        if word not in LEFT_TO_MESSAGES
    ]
    assert not wrong, "\n".join(wrong)
