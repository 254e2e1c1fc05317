"""The documentation is executed: commands, Python, links, and the list of verbs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from polyplink.app.command_line import app
from polyplink.data import DETECTIONS, POLYPS, PROCEDURES
from polyplink.evaluate.choosing import RATES
from polyplink.evaluate.retrieval import RETRIEVAL
from polyplink.evaluate.tracking import MEANS

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```(bash|python)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")
# The README shows the demo's size; here the same commands run at the smallest one.
SMALLEST = {
    "--preset tiny": "--preset smoke",
    "train ntssl-demo data": "train ntssl-demo data --set optim.epochs=1 --set validation.every=2",
    "evaluate run data": "evaluate run data --grid demo",
}


def blocks(page: Path, language: str) -> list[str]:
    """Code blocks of a page that are to be run."""
    return [
        code
        for skip, kind, code in BLOCK.findall(page.read_text(encoding="utf-8"))
        if kind == language and not skip
    ]


def with_blocks(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", with_blocks("bash"), ids=name)
def test_commands_run_as_written(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "PATH": path}
    code = "".join(blocks(page, "bash"))
    for shown, small in SMALLEST.items():
        code = code.replace(shown, small)
    assert "polyplink" in code
    done = subprocess.run(
        ["bash", "-ex", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", with_blocks("python"), ids=name)
def test_python_runs_as_written(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks(page, "python"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), f"{name(page)}: {link}"


def test_the_reference_lists_every_verb() -> None:
    text = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    verbs = {command.name or command.callback.__name__ for command in app.registered_commands}  # type: ignore[union-attr]
    verbs |= {str(group.name) for group in app.registered_groups}
    listed = set(re.findall(r"^\| `polyplink ([\w-]+)", text, re.M))
    assert listed == verbs


def test_the_reference_lists_every_column() -> None:
    text = (ROOT / "docs/reference/files.md").read_text(encoding="utf-8")
    for table, schema in (
        ("detections", DETECTIONS),
        ("procedures", PROCEDURES),
        ("polyps", POLYPS),
    ):
        for column, spec in schema.items():
            null = "yes" if spec.nullable else "no"
            row = f"| {table} | {column} | {spec.dtype} | {null} | {spec.meaning} |"
            assert row in text, row


def test_every_row_of_fidelity_names_tests_that_exist() -> None:
    text = (ROOT / "docs/reference/fidelity.md").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ") and "| text |" not in row]
    for row in rows:
        named = re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)`", row.rsplit("|", 2)[1])
        assert named, row
        for path, test in named:
            assert f"def {test}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), test
    missing = [name for name in (*RETRIEVAL, *RATES, *MEANS, "AUROC", "AUPR") if name not in text]
    assert not missing
