"""Words that a native technical writer would not use are refused in pages, messages and docstrings.

A word of the list is no mistake of grammar: it marks a sentence that a reader has to decode.
Rewrite the sentence; `ALLOWED` is for terms. CONTRIBUTING.md has the rules of style.
"""

import ast
import io
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TESTS = [
    "*.py",
    *sorted(f"{path.parent.name}/**/*.py" for path in ROOT.glob("tests/*/__init__.py")),
]
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
# Of a docstring only the first line is read for these: they are common and often right below.
FIRST_LINE_ALONE = {"own", "whose"}
ALLOWED = (
    "IProgress not found",  # a warning of another library
    "polyps found",  # a figure of `count --truth`
    "your own",
    "its own",
    "their own",
    "'s own",  # the backbone's own output
    "without own",  # a figure of retrieval
)
ARGUMENT = r"^ +\w+: |^ *(?:>>>|\.\.\.).*$"  # of a docstring, and its examples
MARKUP = r"{%.*?%}|{{.*?}}|{#.*?#}|<style.*?</style>|<script.*?</script>|<[^>]*>"
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.M | re.S)
REFUSED = re.compile(rf"\b(?:{'|'.join(ALLOWED)}|({'|'.join(WORDS)}))\b", re.I)


def refused(text: str) -> list[tuple[int, str]]:
    """Line (from 1) and word of each refused word of a text."""
    return [
        (text.count("\n", 0, match.start()) + 1, match[1].lower())
        for match in REFUSED.finditer(text)
        if match[1]
    ]


def blank(pattern: re.Pattern[str], text: str) -> str:
    """A text without the matches of a pattern, with the same lines."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)


def prose(page: str) -> str:
    """A page without code, with the same lines."""
    return blank(CODE, page)


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


def docstrings(source: str) -> list[tuple[int, str]]:
    """Line and text of a file's docstrings, without names of arguments, code and examples."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    return [
        (node.body[0].lineno, blank(re.compile(ARGUMENT, re.M), prose(text)))
        for node in nodes
        if (text := ast.get_docstring(node, clean=False)) is not None
    ]


def comments_and_names(source: str) -> list[tuple[int, str]]:
    """Line and text of a file's comments and of the names that it defines, with spaces for "_"."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            texts.append((node.lineno, node.name))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            texts.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            texts.append((node.lineno, node.arg))
    return [(line, text.replace("_", " ")) for line, text in texts]


def words_of_page(path: Path) -> str:
    """What a reader sees of a template, of a page, or of the English texts of all pages."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return "\n".join(json.loads(text).values())
    return blank(re.compile(MARKUP, re.S), text)


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
    ]
    assert not wrong, "\n".join(wrong)


def test_docstrings_are_written_in_plain_words() -> None:
    doc = 'def f():\n    """Its own `found`.\n\n    found: What was\n      told.\n    """\n'
    ((first, text),) = docstrings(doc)
    assert [(first + line - 1, word) for line, word in refused(text)] == [(5, "told")]
    wrong = [
        f"{path.relative_to(ROOT)}:{first + line - 1}: {word}: {WORDS[word]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for first, text in docstrings(path.read_text(encoding="utf-8"))
        for line, word in refused(text)
        if line == 1 or word not in FIRST_LINE_ALONE
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("pattern", TESTS)
def test_tests_are_written_in_plain_words(pattern: str) -> None:
    code = "def told(found: int) -> None:  # It mends\n    own_part = 1\n"
    words = [word for _, text in comments_and_names(code) for _, word in refused(text)]
    assert sorted(words) == ["found", "mends", "own", "told"]
    files = sorted((ROOT / "tests").glob(pattern))
    assert files
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word}: {WORDS[word]}"
        for path in files
        for source in [path.read_text(encoding="utf-8")]
        for line, text in [*docstrings(source), *comments_and_names(source)]
        for _, word in refused(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_a_reader_sees_of_templates_is_written_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "page.html.j2").write_text('{% if told %}<p class="own">is {{ found }} found</p>')
    assert refused(words_of_page(tmp_path / "page.html.j2")) == [(1, "found")]
    files = [path for end in ("*.j2", "*.html", "en.json") for path in SOURCE.rglob(end)]
    assert len(files) > 10
    wrong = [
        f"{path.relative_to(ROOT)}: {word}: {WORDS[word]}"
        for path in sorted(files)
        for _, word in refused(words_of_page(path))
    ]
    assert not wrong, "\n".join(wrong)
