"""The documentation: its commands, Python, examples and links are run; its site is built."""

import ast
import doctest
import hashlib
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from polyplink.cli.command import sections
from polyplink.core.parts import METRICS, REGISTRIES, VERBS
from polyplink.counting.corrections import Correction
from polyplink.counting.result import Count
from polyplink.data.protocols import PROTOCOLS
from polyplink.data.tables import DETECTIONS, POLYPS, PROCEDURES
from polyplink.detect.onnx import DetectorRecord
from polyplink.recipes.by_name import RECIPES
from tests.cli.calls import polyplink
from tests.forked import Forked, forked

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))
BLOCK = re.compile(
    r'^(<!-- not run: [^\n]+ -->\n)?```(bash|python)(?: title="([\w.]+)")?\n(.*?)^```$', re.M | re.S
)
OPENING = re.compile(
    r"polyplink (simulate|import real-colon|doctor|prepare|train|embed|count|evaluate) "
)
LINK = re.compile(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)")
# Some pages use the size of the demo; the tests run the same commands at the smallest size.
ONE_EPOCH = "--set optim.epochs=1 --set validation.every=2"
PARALLEL = "count|embed|evaluate|prepare|probe|reproduce|study|train"
SMALLEST = {
    r"--preset tiny": "--preset smoke",
    r"(train ntssl-demo data --out run)[^#\n]*": rf"\1 {ONE_EPOCH}  ",
    r"(evaluate run data --out evaluation)(?! --grid)": r"\1 --grid demo",
    r"--engine ray": "",  # tests/cli/test_archive.py starts Ray
    # Starting worker processes takes longer than most commands.
    rf"(polyplink (?:{PARALLEL}) [^#\n|\\&;>]*)": r"\1 --workers 1  ",
}


def blocks(page: Path, language: str) -> list[str]:
    """Code blocks of a page that the tests run."""
    return [
        code
        for skip, kind, _, code in BLOCK.findall(page.read_text(encoding="utf-8"))
        if kind == language and not skip
    ]


def files(page: Path) -> dict[str, str]:
    """Code blocks of a page that a reader saves as files, by file name."""
    text = page.read_text(encoding="utf-8")
    return {title: code for _, _, title, code in BLOCK.findall(text) if title}


def pages_with_blocks(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def pages() -> Any:
    """The module docs/pages.py, which generates pages of the site."""
    pytest.importorskip("mkdocs")
    specification = importlib.util.spec_from_file_location("pages", ROOT / "docs/pages.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def processes() -> Iterator[Forked]:
    with tempfile.TemporaryDirectory() as folder, forked(Path(folder)) as forked_processes:
        yield forked_processes


def assert_success(completed: "subprocess.CompletedProcess[str]") -> None:
    assert completed.returncode == 0, completed.stderr


def folder_after(commands: tuple[str, ...], processes: Forked, shared: Path) -> Path:
    """A folder after the first commands of a page, in a folder shared by all workers of the tests.

    Pages with the same commands share it: the first one that needs it runs them.
    """
    folder = shared / hashlib.sha256("\n".join(commands).encode()).hexdigest()[:16]
    done = folder.with_suffix(".done")
    with FileLock(folder.with_suffix(".lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            if before := commands[:-1]:
                shutil.copytree(folder_after(before, processes, shared), folder)
            folder.mkdir(exist_ok=True)
            assert_success(processes.run(commands[-1], folder))
            done.touch()
    return folder


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of the tests share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.documentation
@pytest.mark.parametrize("page", pages_with_blocks("bash"), ids=name)
def test_commands_run_as_written(
    page: Path, processes: Forked, tmp_path: Path, shared: Path
) -> None:
    code = "".join(blocks(page, "bash"))
    for original, small in SMALLEST.items():
        code = re.sub(original, small, code)
    assert "polyplink" in code
    lines = code.splitlines()
    first = tuple(line.partition("  #")[0].rstrip() for line in takewhile(OPENING.match, lines))
    if first:
        shutil.copytree(folder_after(first, processes, shared), tmp_path, dirs_exist_ok=True)
    assert_success(processes.run("\n".join(lines[len(first) :]), tmp_path))


@pytest.mark.documentation
@pytest.mark.parametrize("page", pages_with_blocks("python"), ids=name)
def test_python_runs_as_written(page: Path, processes: Forked, tmp_path: Path) -> None:
    for title, code in files(page).items():
        (tmp_path / title).write_text(code)
    assert_success(processes.python("\n".join(blocks(page, "python")), tmp_path))


@pytest.mark.parametrize("page", [page for page in PAGES if files(page)], ids=name)
def test_files_of_a_page_pass_the_linter(page: Path) -> None:
    ruff = shutil.which("ruff", path=Path(sys.executable).parent) or pytest.skip("no ruff")
    for title, code in files(page).items():
        place = f"tests/{title}" if title.startswith("test_") else f"src/{title}"
        for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
            arguments = [ruff, *command, "--stdin-filename", place, "-"]
            completed = subprocess.run(
                arguments, input=code, cwd=ROOT, capture_output=True, text=True, check=False
            )
            assert completed.returncode == 0, f"{title}: {completed.stdout}{completed.stderr}"


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and mkdocs make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    plain = [
        re.sub(r"[^\w\s-]", "", title).lower() for title in re.findall(r"^#+ (.+)$", text, re.M)
    ]
    return {re.sub(r"[\s]+", "-", title.strip()) for title in plain}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert cells[0]["source"][0].startswith("# ")


@pytest.mark.documentation
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebooks_run_and_show_their_results(path: Path) -> None:
    """Results are stored under .cache, so that `make docs` does not run notebooks again."""
    pytest.importorskip("nbclient")
    notebook = pages().run_notebook(path)
    run_outputs = str([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    assert "text/html" in run_outputs
    assert "<progress" in run_outputs


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name)
def test_links_have_existing_targets(page: Path) -> None:
    for link, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), f"{name(page)}: {link}"
        assert not anchor or anchor in anchors(target), f"{name(page)}: {link}#{anchor}"


@pytest.mark.parametrize("verb", VERBS.names())
def test_the_page_of_a_verb_has_the_options_of_its_help(verb: str) -> None:
    page = pages().verb_page(verb, {})
    help_text = polyplink(*verb.split(), "--help").stdout
    options = set(re.findall(r"--[a-z][\w-]+", help_text)) - {"--help"}
    assert options == set(re.findall(r"`(--[\w-]+)`", page.split("## In Python")[0]))


def test_the_page_of_a_package_lists_its_modules() -> None:
    page = pages().room_page("polyplink", "associate")
    listed = re.findall(r"^::: ([\w.]+)$", page, re.M)
    assert {"polyplink.associate.links", "polyplink.associate.affinity_propagation"} <= {*listed}
    for name in listed:
        assert importlib.import_module(name).__doc__


def test_the_table_of_verbs_has_the_sections_of_help() -> None:
    rows = [re.split(r" *[|] *", row)[1:4] for row in pages().verb_table().splitlines()[2:]]
    titles = [title for title, verbs in sections().items() for _ in verbs]
    assert [title for title, *_ in rows] == titles
    assert [link.split("`")[1] for _, link, _ in rows] == [
        f"polyplink {verb}" for verb in VERBS.names()
    ]


def test_the_page_of_parts_has_every_name() -> None:
    tables = pages().part_table() + pages().metric_table()
    names = Counter(name for registry in REGISTRIES.values() for name in registry)
    for name, kinds in names.items():  # a figure and a metric may have the same name
        assert tables.count(f"| `{name}` |") == kinds, name
    assert "| `FPR` | false positive rate | counting |" in tables
    assert not re.search(r"\| \|$", pages().part_table(), re.M)  # every part has a description


def test_the_gallery_shows_outputs_of_its_commands_and_small_pictures() -> None:
    commands = ast.literal_eval(
        re.findall(r"^COMMANDS = ({.*?^})", (ROOT / "docs/pictures.py").read_text(), re.M | re.S)[0]
    )
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    examples = re.findall(
        r"<!-- output: ([\w-]+) -->\n```text\n\$ polyplink (.*?)\n(.*?)^```$", page, re.M | re.S
    )
    assert sorted(name for name, *_ in examples) == sorted(commands)
    for name, command, output in examples:
        assert re.fullmatch(re.sub(r"{\w+}", r"\\S+", commands[name]), command), name
        assert output.strip(), name
    pages_text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    for picture in ROOT.glob("docs/pictures/*"):
        assert picture.name in pages_text, picture
        assert picture.stat().st_size < 150_000, picture


def test_new_pages_join_the_navigation() -> None:
    listed = [{"Home": "index.md"}, {"How to": ["how-to/run.md"]}]
    navigation = pages().navigation(
        listed, ["index.md", "how-to/run.md", "how-to/new.md", "reference/verbs/x.md"]
    )
    assert navigation[1]["How to"] == ["how-to/run.md", "how-to/new.md"]
    assert navigation[2]["Reference"] == [{"Verbs": ["reference/verbs/x.md"]}]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site without outputs of notebooks; its folder."""
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    completed = subprocess.run(
        [*command, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NOTEBOOKS": "shown"},
    )
    assert completed.returncode == 0, completed.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(site: Path) -> None:
    search_index = (site / "search/search_index.js").read_text(encoding="utf-8")
    assert "results.html" in search_index
    assert "logbook.html" not in re.findall(r'"location":"([^"#]*)', search_index)
    assert "logbook.html" not in (site / "gallery.html").read_text(encoding="utf-8")
    for page in (*PAGES[1:], *NOTEBOOKS):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()


QUESTIONS = {  # questions of new users, and the page that answers each
    "how to install": "install",
    "count polyps in a video": "run",
    "use my own detector": "run",
    "count is not calibrated": "count",
    "correct a wrong count": "review",
    "import COCO annotations": "import",
    "compare two encoders": "evaluate",
    "train on GPU": "gpu",
    "export to ONNX": "export",
    "migrating from lightly": "migrating-from",
    "search similar polyps": "search",
}
TYPED = "(box, text) => { box.value = text; box.dispatchEvent(new Event('keyup')) }"
ANSWERED = f"""text => {{
    if (document.querySelector(".md-search-result__item > a")) return true;
    ({TYPED})(document.querySelector(".md-search__input"), text);
}}"""


@pytest.mark.slow
def test_the_search_of_the_site_shows_the_how_to_first(site: Path) -> None:
    """In a browser, with the files of the site opened from disk."""
    browsers = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    first = {}
    with browsers.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto((site / "index.html").as_uri())
        box, results = (
            page.locator(".md-search__input"),
            page.locator(".md-search-result__item > a"),
        )
        box.click()
        browsers.expect(page.get_by_text("Type to start searching")).to_be_attached(timeout=60_000)
        for question in QUESTIONS:
            # Type again until there are results, because input is lost while the index loads.
            page.wait_for_function(ANSWERED, arg=question, polling=500)
            first[question] = str(results.first.get_attribute("href")).partition("?")[0]
            box.evaluate(TYPED, "")
            results.first.wait_for(state="detached")
        browser.close()
    answers = {q: (site / f"how-to/{name}.html").as_uri() for q, name in QUESTIONS.items()}
    assert first == answers


EXAMPLES = sorted(
    path for path in SOURCE.rglob("*.py") if ">>>" in path.read_text(encoding="utf-8")
)
EXECUTED = [pytest.mark.documentation]
COMPILED = ("associate/clusterers.py", "associate/partition.py", "tracklets/tracks.py")
SIMULATED = ("simulate/data_set.py", "simulate/rendering.py")
SLOW_EXAMPLES = (*COMPILED, *SIMULATED, "encoders/published.py")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=EXECUTED * str(path).endswith(SLOW_EXAMPLES), id=name(path))
        for path in EXAMPLES
    ],
)
def test_examples_of_docstrings_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = path.relative_to(SOURCE).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    assert not doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed


def test_the_reference_lists_every_column() -> None:
    table = pages().column_table()
    assert "| polyps | `size_mm` | Float32 | yes | largest diameter, mm |" in table
    columns = re.findall(r"^\| \w+ \| `(\w+)` \|", table, re.M)
    assert columns == [*DETECTIONS, *PROCEDURES, *POLYPS]


def test_the_pages_describe_every_field_of_a_record() -> None:
    records = {"count": Count, "correction": Correction, "detector": DetectorRecord}
    for table, record in records.items():
        rows = getattr(pages(), f"{table}_table")()
        assert {field.name for field in fields(record)} <= {*re.findall(r"\| `(\w+)` \|", rows)}
    assert "| `groups` of a procedure | `size_mm` | Estimated size, mm. |" in pages().count_table()


def test_the_how_to_lists_every_published_part() -> None:
    listed = set(re.findall(r"`([a-z][\w-]*)`", pages().protocol_list()))
    assert {*PROTOCOLS} <= listed, {*PROTOCOLS} - listed


def test_the_how_to_lists_every_recipe() -> None:
    table = pages().recipe_table()
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", table, re.M) == list(RECIPES)
    assert "| `tpc` | rc27 | yes | Towards polyp counting" in table


def test_every_row_of_fidelity_names_tests_that_exist() -> None:
    text = (ROOT / "docs/reference/fidelity.md").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ") and "| text |" not in row]
    for row in rows:
        tests_of_row = re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)`", row.rsplit("|", 2)[1])
        assert tests_of_row, row
        for path, test in tests_of_row:
            assert f"def {test}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), test
    missing = [
        n for n, metric in METRICS.items() if (metric.key or metric.with_mean) and n not in text
    ]
    assert not missing
