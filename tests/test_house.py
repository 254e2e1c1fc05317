"""Rules of the code: which package may import which, length of files, docstrings.

docs/explanation/architecture.md explains them.
"""

import ast
import importlib
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import polyplink
from polyplink.core.parts import VERBS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PRODUCT, LAB = "polyplink", "polyplink_lab"
ROOMS = (
    "core",
    "models",
    "data",
    "tracklets",
    "detect",
    "encoders",
    "learn",
    "associate",
    "evaluate",
    "counting",
    "recipes",
    "report",
    "scale",
    "serve",
    "stills",
    "pipeline",
    "streaming",
    "cli",
)
LAB_ROOMS = ("simulate", "reproduce", "bench", "cli")  # the lab may use all of the product
TESTING = "testing"  # for authors of plugins: it may import every room, and none imports it
LONGEST = 700  # lines; a longer file has two concepts


@cache
def files() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def room_of(path: Path) -> tuple[str, str]:
    """The package of a file, and its room in the package."""
    package, room, *_ = path.relative_to(SOURCE).parts
    return package, room.removesuffix(".py")


def imported_rooms(tree: ast.Module, package: str) -> set[str]:
    """Rooms of a package that a file imports from, anywhere in the file."""
    rooms = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == package:
                rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {
                alias.name.split(".")[1]
                for alias in node.names
                if alias.name.startswith(f"{package}.")
            }
    return rooms - {"__version__", "PolyplinkError"}


def test_a_room_imports_only_rooms_above_it() -> None:
    wrong = []
    for path, tree in files().items():
        package, room = room_of(path)
        rooms = imported_rooms(tree, package)
        order = ROOMS if package == PRODUCT else LAB_ROOMS
        if room == TESTING:
            allowed = set(ROOMS)
        elif room not in order:  # __init__.py with verbs and their results, and __main__.py
            allowed = {"core", "pipeline", "cli"}
        else:
            allowed = set(order[: order.index(room) + 1])
        wrong += [f"{path.relative_to(SOURCE)} imports {name}" for name in sorted(rooms - allowed)]
    assert not wrong


def test_the_picture_of_the_architecture_shows_every_room_above_what_it_imports() -> None:
    name = "{http://www.w3.org/2000/svg}text[@class='name']"
    svg = ET.parse(ROOT / "docs/pictures/architecture.svg")
    product, lab = (svg.findall(f".//*[@id='{group}']/{name}") for group in ("product", "lab"))
    assert {text.text for text in lab} == set(LAB_ROOMS)
    height = {text.text: float(text.attrib["y"]) for text in product}
    assert set(height) == set(ROOMS)
    for path, tree in files().items():
        package, room = room_of(path)
        if package == PRODUCT and room in height:
            for imported in imported_rooms(tree, package) - {room}:
                assert height[imported] > height[room], f"{path} imports {imported}"


def test_the_product_does_not_name_the_lab() -> None:
    """Neither in imports nor in strings: the lab joins by entry points."""
    product = [path for path in files() if room_of(path)[0] == PRODUCT]
    assert 100 < len(product) < len(files())
    assert not [path for path in product if LAB in path.read_text()]


@cache
def modules() -> dict[str, ast.Module]:
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): tree
        for path, tree in files().items()
    }


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that a file executes, functions included, without those for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            yield node
            yield from nodes_of(node)


def imported_modules(nodes: Iterable[ast.AST]) -> set[str]:
    """Modules of the package that a file imports, at import or later."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names & set(modules())


@cache
def imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {name: imported_modules(nodes_of(tree)) - {name} for name, tree in modules().items()}


def transitive_imports(start: str) -> set[str]:
    """Modules that a module imports, directly or through others."""
    imported, new = set[str](), {start}
    while new:
        imported |= new
        new = set[str]().union(*(imports()[name] for name in new)) - imported
    return imported


def test_imports_form_no_circle() -> None:
    """Imports for type checkers count too, except those in `polyplink/__init__.py`."""
    remaining = {
        name: imported_modules(ast.walk(tree)) - {PRODUCT, name}
        for name, tree in modules().items()
        if name != PRODUCT
    }
    while leaves := [name for name, others in remaining.items() if not others & set(remaining)]:
        for name in leaves:
            del remaining[name]
    assert not remaining, f"circles among {sorted(remaining)}"


@pytest.mark.parametrize("package", [PRODUCT, LAB])
def test_no_verb_imports_a_verb(package: str) -> None:
    """Nor through other modules; verbs of the lab may call those of the product, as users do."""
    defined = {VERBS.find(name).__module__ for name in VERBS.names()}
    verbs = {name for name in defined if name.startswith(f"{package}.")}
    assert verbs
    wrong = {name: transitive_imports(name) & verbs - {name} for name in verbs}
    assert not {name: sorted(others) for name, others in wrong.items() if others}


def test_no_file_is_longer_than_700_lines() -> None:
    lengths = {str(path): path.read_text().count("\n") for path in files()}
    assert not {path: length for path, length in lengths.items() if length > LONGEST}


def test_every_file_has_a_docstring_and_init_files_have_nothing_else() -> None:
    """So every name is imported from the module that defines it."""
    for path, tree in files().items():
        assert isinstance(tree.body[0], ast.Expr), f"{path} has no docstring"
        if path.name == "__init__.py" and path.parent != SOURCE / PRODUCT:
            assert len(tree.body) == 1, path


def test_the_package_has_the_names_that_type_checkers_see() -> None:
    block = next(n for n in files()[SOURCE / PRODUCT / "__init__.py"].body if isinstance(n, ast.If))
    modules = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert set(dir(polyplink)) == {*modules, "__version__"}
    listed = getattr(polyplink, "__all__")  # noqa: B009 - which help() reads, and mypy does not know
    assert set(listed) == {*modules}
    for name, module in modules.items():
        defined = getattr(importlib.import_module(module), name)
        assert getattr(polyplink, name) is defined
    with pytest.raises(AttributeError, match="'polyplink' has no attribute 'depth'"):
        getattr(polyplink, "depth")  # noqa: B009 - mypy knows that it has none


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("convert", "polyplink.convert_data"),
        ("weights_list", "polyplink.list_weights"),
        ("simulate", "polyplink_lab.cli.simulate.simulate"),
    ],
)
def test_the_name_of_a_command_leads_to_its_function(name: str, function: str) -> None:
    with pytest.raises(AttributeError, match=f"; the function of `polyplink .*` is {function}$"):
        getattr(polyplink, name)


def test_the_script_that_writes_the_models_starts() -> None:
    script = ROOT / ".ci" / "seal-models"
    done = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--encoder" in done.stdout


def test_every_test_asserts() -> None:
    """By `assert`, by `raises`, or by a check for plugins."""
    body = files()[SOURCE / PRODUCT / f"{TESTING}.py"].body
    checks = [f"{node.name}(" for node in body if isinstance(node, ast.FunctionDef)]
    silent = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text()
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                if not any(word in text for word in ("assert", "raises", *checks)):
                    silent.append(f"{path.name}:{node.name}")
    assert not silent
