"""Pages of the site that are made from the program: a hook of mkdocs (mkdocs.yml).

The front page is README.md. Every verb has a page made from its annotations, every room one
made from its docstrings, every notebook one with its outputs. Pages that mkdocs.yml does not list
join the section of their folder, so that a new file in docs/ is in the site.

Notebooks are run once and again when they or the package change; with NOTEBOOKS=shown in the
environment they are shown without outputs.
"""

import hashlib
import importlib
import inspect
import os
import re
import tempfile
from html import escape
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from nbclient import NotebookClient
from typer.models import ArgumentInfo, Context

from polyplink.cli.command import command, sections
from polyplink.cli.recipes import list_recipes
from polyplink.core.parts import METRICS, REGISTRIES, VERBS
from polyplink.counting.corrections import Correction
from polyplink.counting.interval import Cover, Coverage
from polyplink.counting.result import (
    Count,
    CountedPolyp,
    CountedProcedure,
    CountedQuestion,
    CountedTracklet,
)
from polyplink.data.protocols import protocol_part
from polyplink.data.tables import DETECTIONS, POLYPS, PROCEDURES
from polyplink.detect.onnx import DetectorRecord
from polyplink_lab.reproduce.published_tables import published_tables
from polyplink_lab.reproduce.standing import STANDINGS, reasons, standard_errors

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PACKAGES = ("polyplink", "polyplink_lab")
FRONT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
COPIED = ("CITATION.cff",)
FOLDERS = {"tutorials": "Tutorials", "how-to": "How to", "reference": "Reference"} | {
    "explanation": "Explanation",
    "verbs": "Verbs",
    "python": "Python",
}
# A search shows a how-to before other pages with the same words, and those made from code last.
BOOSTS = {"how-to/": 8, "tutorials/": 3, "reference/verbs/": 0.5, "reference/python/": 0.2}
nbformat: Any = importlib.import_module("nbformat")  # its functions have no types
OUTPUTS: dict[str, list[str]] = {}  # HTML of the outputs of a notebook's cells, by page
WORDS = {int: "whole number", float: "number", Path: "path"}
ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*>")


class Examples(griffe.Extension):
    """Shows the sections "Example" of docstrings as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give the section the name under which its code is recognised."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.M
            )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and list every page in the navigation."""
    for name, target in FRONT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        # The changelog has every word of the other pages, and would be the first found of each.
        unsearched = "---\nsearch: {exclude: true}\n---\n" * (name == "CHANGELOG.md")
        files.append(File.generated(config, target, content=unsearched + _at_root(text)))
    for name in COPIED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = nbformat.read(str(file.abs_src_path), as_version=4)
        if os.environ.get("NOTEBOOKS") != "shown":
            notebook = run_notebook(Path(str(file.abs_src_path)))
        target = f"{file.src_uri.removesuffix('.ipynb')}.md"
        files.append(File.generated(config, target, content=notebook_page(notebook, file.name)))
        OUTPUTS[target] = [_outputs(cell) for cell in notebook.cells if cell.cell_type == "code"]
    guides = {
        file.src_uri: file.content_string
        for file in files
        if file.src_uri.startswith(("how-to", "tutorials"))
    }
    for name in VERBS.names():
        target = f"reference/verbs/{_slug(name)}.md"
        files.append(File.generated(config, target, content=verb_page(name, guides)))
    architecture = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    for room in re.findall(r"^\| `(\w+)` \|", architecture, re.M):
        package = next((name for name in PACKAGES if (SOURCE / name / room).is_dir()), None)
        if room == "cli" or package is None:  # verbs have pages of their own
            continue
        target = f"reference/python/{room}.md"
        files.append(File.generated(config, target, content=room_page(package, room)))
    in_navigation = files.documentation_pages(inclusion=InclusionLevel.is_in_nav)
    config.nav = navigation(config.nav or [], [file.src_uri for file in in_navigation])
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put the tables that are made into the pages that ask for them; lead to pages of notebooks."""
    for folder, boost in BOOSTS.items():
        if page.file.src_uri.startswith(folder):
            page.meta.setdefault("search", {"boost": boost})
    if page.file.src_uri in OUTPUTS:
        return markdown
    markdown = re.sub(r"\]\(([\w./-]+)\.ipynb\)", r"](\1.md)", markdown)
    tables = {
        "verbs": verb_table,
        "parts": part_table,
        "metrics": metric_table,
        "expectations": expectations,
        "columns": column_table,
        "count": count_table,
        "corrections": correction_table,
        "detector": detector_table,
        "protocols": protocol_list,
        "recipes": recipe_table,
    }
    for name, table in tables.items():
        if (mark := f"<!-- {name} -->") in markdown:
            markdown = markdown.replace(mark, table())
    return markdown


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Put the outputs of a notebook's cells below them."""
    for number, outputs in enumerate(OUTPUTS.get(page.file.src_uri, ())):
        html = html.replace(f'<div id="output-{number}"></div>', outputs)
    return html


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Refuse a page that loads something from elsewhere."""
    link = ELSEWHERE.search(output)
    if link and 'rel="canonical"' not in link.group():
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {link.group()}")
    return output


def navigation(listed: list[Any], pages: list[str]) -> list[Any]:
    """The navigation of mkdocs.yml with the pages that it does not list, by folder."""
    named = set(re.findall(r"[\w/-]+\.md", str(listed)))
    for page in pages:
        if page in named:
            continue
        *folders, _ = page.split("/")
        place = listed
        for folder in folders:
            title = FOLDERS[folder]
            section = next(
                (entry for entry in place if isinstance(entry, dict) and title in entry), None
            )
            if section is None:
                section = {title: []}
                place.append(section)
            place = section[title]
        place.append(page)
    return listed


def run_notebook(path: Path) -> Any:
    """A notebook with its outputs; it is not run again until it or the package changes."""
    sources = [path, *sorted(SOURCE.rglob("*.py")), *sorted(SOURCE.rglob("*.j2"))]
    key = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    cached = ROOT / ".cache" / "notebooks" / f"{path.stem}-{key}.ipynb"
    if not cached.is_file():
        notebook = nbformat.read(str(path), as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            paths = {"metadata": {"path": folder}}
            NotebookClient(notebook, timeout=600, resources=paths).execute()
        cached.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, str(cached))
    return nbformat.read(str(cached), as_version=4)


def notebook_page(notebook: Any, name: str) -> str:
    """The page of a notebook, with a place for the outputs of each cell.

    Args:
        notebook: Its first cell begins with the title.
        name: Of the file, without its ending.
    """
    text, number = list[str](), 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text.append(cell.source)
        else:
            code = f'```python\n{cell.source}\n```\n\n<div id="output-{number}"></div>'
            text.append(code)
            number += 1
    title, _, rest = text[0].partition("\n")
    download = f"*This page is a notebook: [download it]({name}.ipynb) and open it in Jupyter.*"
    return "\n\n".join([title, download, rest, *text[1:]])


def _outputs(cell: Any) -> str:
    """What a cell shows, as HTML: the richest form of each output; nothing of stderr."""
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data:
            parts.append(data["text/html"])
        elif "image/png" in data:
            parts.append(f'<img alt="output" src="data:image/png;base64,{data["image/png"]}">')
        elif output.get("name") != "stderr":
            plain = data.get("text/plain", output.get("text", ""))
            parts.append(f"<pre>{escape(plain)}</pre>")
    return f'<div class="output">{"".join(parts)}</div>' if parts else ""


def verb_table() -> str:
    """All verbs with the first line of their docstrings, in the sections of `--help`."""
    rows = [
        f"| {title} | [`polyplink {name}`](verbs/{_slug(name)}.md) | {_summary(VERBS.find(name))} |"
        for title, verbs in sections().items()
        for name in verbs
    ]
    return "\n".join(("| to | verb | does |", "|---|---|---|", *rows))


def expectations() -> str:
    """What every published table rests on: the reasons by letter, and a row for each table."""
    letters: dict[str, str] = {}
    rows = []
    for table in published_tables().values():
        counts = {kind: list[str]() for kind in STANDINGS}
        for (kind, why), n in reasons(table).items():
            letter = letters.setdefault(why, chr(ord("a") + len(letters))) if why else ""
            counts[kind].append(f"{n} {letter}".strip())
        errors = (f"{name} {error:.2g}" for name, error in standard_errors(table).items())
        cells = [", ".join(counts[kind]) for kind in STANDINGS] + [", ".join(errors)]
        rows.append(f"| {' | '.join([table.name, *cells])} |")
    head = ("table", *STANDINGS, "standard error")
    listed = (f"- **{letter}**: {why}" for why, letter in letters.items())
    return "\n".join((*listed, "", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows))


def column_table() -> str:
    """The columns of the tables of a data folder: type, whether null is allowed, meaning."""
    tables = {"detections": DETECTIONS, "procedures": PROCEDURES, "polyps": POLYPS}
    rows = [
        f"| {table} | `{name}` | {column.dtype} | {'yes' if column.nullable else 'no'} "
        f"| {_cell(column.meaning)} |"
        for table, schema in tables.items()
        for name, column in schema.items()
    ]
    return "\n".join(("| table | column | type | null | holds |", "|---|---|---|---|---|", *rows))


def count_table() -> str:
    """The fields of count.json, by the object that has them."""
    objects = {
        "count.json": Count,
        "`procedures`": CountedProcedure,
        "`groups` of a procedure": CountedPolyp,
        "`tracklets` of a group; `alarms`": CountedTracklet,
        "`to_look_at`": CountedQuestion,
        "`cover`": Cover,
        "`coverage`": Coverage,
    }
    rows = [f"| {place} {row}" for place, kind in objects.items() for row in _attributes(kind)]
    return "\n".join(("| of | field | holds |", "|---|---|---|", *rows))


def correction_table() -> str:
    """The fields of a line of corrections.jsonl."""
    return "\n".join(("| field | holds |", "|---|---|", *_attributes(Correction)))


def detector_table() -> str:
    """The fields of the record beside a detector's file."""
    return "\n".join(("| field | meaning |", "|---|---|", *_attributes(DetectorRecord)))


def protocol_list() -> str:
    """The published parts, from the docstring of the function that finds their procedures."""
    _, listed, *_ = (inspect.getdoc(protocol_part) or "").split("\n\n")
    return listed


def _attributes(kind: type) -> list[str]:
    """Rows of the attributes that the docstring of a class describes."""
    docstring = griffe.Docstring(inspect.getdoc(kind) or "")
    return [
        f"| `{attribute.name}` | {_cell(attribute.description)} |"
        for section in griffe.parse_google(docstring, warn_missing_types=False)
        if section.kind is griffe.DocstringSectionKind.attributes
        for attribute in section.value
    ]


def recipe_table() -> str:
    """All recipes, with the columns of `polyplink recipes list`."""
    recipes = list_recipes().value
    head = list(recipes[0])
    rows = [[f"`{name}`", *map(_cell, rest)] for name, *rest in map(dict.values, recipes)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def part_table() -> str:
    """The names of all parts but metrics, by kind, and what each is."""
    rows = [
        f"| {kind} | `{name}` | {_cell(_about(part))} |"
        for kind, registry in REGISTRIES.items()
        for name, part in registry.items()
        if kind != "metric"
    ]
    return "\n".join(("| kind | name | is |", "|---|---|---|", *rows))


def _about(part: Any) -> str:
    """The first sentence on a part; of a format, on its importer."""
    return (inspect.getdoc(getattr(part, "read", part)) or "").partition("\n")[0]


def metric_table() -> str:
    """All metrics: their name, task, what they mean, and their best value."""
    rows = [
        f"| {' | '.join((f'`{name}`', metric.title, metric.task, _cell(metric.meaning)))} "
        f"| {metric.ideal:g} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join(("| metric | name | task | meaning | ideal |", "|---|---|---|---|---|", *rows))


def verb_page(name: str, guides: dict[str, str]) -> str:
    """The page of one verb: what it does, its arguments and options, and how to call it.

    Args:
        name: As in `VERBS`.
        guides: Text of the pages that may show how it is used, by path.
    """
    verb = VERBS.find(name)
    typed = inspect.signature(command(verb)).parameters.values()
    parameters = [
        parameter for parameter in typed if parameter.annotation is not Context
    ]  # typer passes that itself
    arguments = [parameter for parameter in parameters if _is_argument(parameter)]
    options = [parameter for parameter in parameters if not _is_argument(parameter)]
    usage = " ".join(["polyplink", name, *map(_usage, arguments), "[OPTIONS]"])
    text = [
        f"# polyplink {name}",
        inspect.cleandoc(verb.__doc__).split("\n\nArgs:")[0].split("\n\nRaises:")[0],
        f"```text\n{usage}\n```",
    ]
    for title, several in (("Argument", arguments), ("Option", options)):
        if several:
            head = f"| {title.lower()} | value | default | meaning |\n|---|---|---|---|"
            text += [f"## {title}s", "\n".join((head, *map(_row, several)))]
    links = [
        f"- [{_title(content)}](../../{path})"
        for path, content in guides.items()
        if re.search(rf"polyplink {name}\b", content)
    ]
    if links:
        text += ["## Guides", "\n".join(links)]
    module = verb.__module__
    text += ["## In Python", f"::: {module}.{verb.__name__}\n    options: {{heading_level: 3}}"]
    text += [
        f"::: {module}.{record}\n    options: {{heading_level: 3}}" for record in _records(verb)
    ]
    return "\n\n".join(text)


def room_page(package: str, room: str) -> str:
    """The page of a room: its modules with their public names."""
    folder = SOURCE / package / room
    modules = [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in sorted(folder.rglob("*.py"))
        if not path.name.startswith("_")
    ]
    intro = inspect.getdoc(importlib.import_module(f"{package}.{room}")) or ""
    options = "    options: {show_root_full_path: true}"
    return "\n\n".join(
        [f"# {package}.{room}", intro, *(f"::: {name}\n{options}" for name in modules)]
    )


def _records(verb: Any) -> list[str]:
    """Names of the records that a verb gives back, if its module has them."""
    module = importlib.import_module(verb.__module__)
    annotations = [str(annotation) for annotation in inspect.get_annotations(verb).values()]
    names = [name for annotation in annotations for name in re.findall(r"\w+", annotation)]
    return [
        name
        for name in dict.fromkeys(names)
        if inspect.isclass(getattr(module, name, None))
        and getattr(module, name).__module__ == verb.__module__
    ]


def _at_root(text: str) -> str:
    """A page of the repository's root with links that hold in the site."""
    text = text.replace("](docs/", "](").replace(".ipynb)", ".md)")
    for name, target in FRONT.items():
        text = text.replace(f"]({name})", f"]({target})")
    return text


def _slug(name: str) -> str:
    return name.replace(" ", "-")


def _summary(verb: Any) -> str:
    return _cell((inspect.getdoc(verb) or "").partition("\n")[0])


def _title(content: str) -> str:
    return content.lstrip().partition("\n")[0].removeprefix("# ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _is_argument(parameter: inspect.Parameter) -> bool:
    return isinstance(get_args(parameter.annotation)[1], ArgumentInfo)


def _plain(parameter: inspect.Parameter) -> tuple[Any, bool]:
    """The type of a value, and whether there may be several."""
    kind = get_args(parameter.annotation)[0]
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        kind = next(member for member in get_args(kind) if member is not type(None))
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


def _usage(parameter: inspect.Parameter) -> str:
    name = parameter.name.upper() + " ..." * _plain(parameter)[1]
    return name if parameter.default is inspect.Parameter.empty else f"[{name}]"


def _row(parameter: inspect.Parameter) -> str:
    """The row of an argument or option: name, value, default, help."""
    (kind, several), (_, info, *_) = _plain(parameter), get_args(parameter.annotation)
    name, default = parameter.name.replace("_", "-"), parameter.default
    declared = [word for word in (info.default, *(info.param_decls or ())) if isinstance(word, str)]
    names = declared or [f"--{name}", *([f"--no-{name}"] if kind is bool else [])]
    if _is_argument(parameter):
        names = [parameter.name.upper()]
    if kind is bool:
        value = ""
    elif get_origin(kind) is Literal:
        value = ", ".join(f"`{choice}`" for choice in get_args(kind))
    else:
        ends = {"from": info.min, "to": info.max}
        limits = [f"{word} {end:g}" for word, end in ends.items() if end is not None]
        value = " ".join([WORDS.get(kind, "text"), *limits, *["(several)"] * several])
    default_text = f"`{default}`"
    if default is inspect.Parameter.empty:
        default_text = "required"
    elif default in (None, False, (), ""):
        default_text = ""
    elif default is True:
        default_text = "on"
    cells = (", ".join(f"`{name}`" for name in names), value, default_text, _cell(info.help or ""))
    return f"| {' | '.join(cells)} |"
