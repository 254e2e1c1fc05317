"""The rules of the house, kept by a test: who may import whom, and how long a file gets.

docs/explanation/architecture.md explains them.
"""

import ast
import importlib
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
LAB_ROOMS = ("simulate", "reproduce", "bench", "cli")  # it may use all of the product
TESTING = "testing"  # for authors of plugins: it may use every room, and none uses it
LONGEST = 700  # lines; a longer file holds two concepts


@cache
def files() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def room_of(path: Path) -> tuple[str, str]:
    """The package of a file, and its room there."""
    package, room, *_ = path.relative_to(SOURCE).parts
    return package, room.removesuffix(".py")


def imported_rooms(tree: ast.Module, package: str) -> set[str]:
    """Rooms of a package that a file imports from, anywhere in it."""
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
        elif room not in order:  # __init__.py, which has verbs and what they return; the entry
            allowed = {"core", "pipeline", "cli"}
        else:
            allowed = set(order[: order.index(room) + 1])
        wrong += [f"{path.relative_to(SOURCE)} imports {name}" for name in sorted(rooms - allowed)]
    assert not wrong


def test_the_product_does_not_name_the_lab() -> None:
    """In no import and in no string: what it uses of the lab joins by entry points."""
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
    """What a file executes, functions included; what only type checkers read is left out."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            yield node
            yield from nodes_of(node)


def imported_modules(nodes: Iterable[ast.AST]) -> set[str]:
    """Modules of the package that a file imports, when it is imported or later."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names & set(modules())


@cache
def imports() -> dict[str, set[str]]:
    """What each module imports."""
    return {name: imported_modules(nodes_of(tree)) - {name} for name, tree in modules().items()}


def reached(start: str) -> set[str]:
    """Modules that a module imports, those that they import, and so on."""
    seen, new = set[str](), {start}
    while new:
        seen |= new
        new = set[str]().union(*(imports()[name] for name in new)) - seen
    return seen


def test_imports_form_no_circle() -> None:
    """What only type checkers read counts too, but for the verbs in `polyplink/__init__.py`."""
    rest = {
        name: imported_modules(ast.walk(tree)) - {PRODUCT, name}
        for name, tree in modules().items()
        if name != PRODUCT
    }
    while leaves := [name for name, others in rest.items() if not others & set(rest)]:
        for name in leaves:
            del rest[name]
    assert not rest, f"circles among {sorted(rest)}"


@pytest.mark.parametrize("package", [PRODUCT, LAB])
def test_no_verb_imports_a_verb(package: str) -> None:
    """Not through other modules either; the lab runs those of the product, as a user's program."""
    defined = {VERBS.find(name).__module__ for name in VERBS.names()}
    verbs = {name for name in defined if name.startswith(f"{package}.")}
    assert verbs
    wrong = {name: reached(name) & verbs - {name} for name in verbs}
    assert not {name: sorted(others) for name, others in wrong.items() if others}


def test_files_can_be_held_in_the_head() -> None:
    lengths = {str(path): path.read_text().count("\n") for path in files()}
    assert not {path: length for path, length in lengths.items() if length > LONGEST}


def test_every_file_has_a_docstring_and_rooms_nothing_else() -> None:
    """Every name is imported from the module that defines it."""
    for path, tree in files().items():
        assert isinstance(tree.body[0], ast.Expr), f"{path} has no docstring"
        if path.name == "__init__.py" and path.parent != SOURCE / PRODUCT:
            assert len(tree.body) == 1, path


def test_the_package_has_what_type_checkers_read() -> None:
    block = next(n for n in files()[SOURCE / PRODUCT / "__init__.py"].body if isinstance(n, ast.If))
    modules = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert set(dir(polyplink)) == {*modules, "__version__"}
    for name, module in modules.items():
        assert getattr(polyplink, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="'polyplink' has no attribute 'depth'"):
        getattr(polyplink, "depth")  # noqa: B009 - mypy knows that it has none


def test_every_test_asserts() -> None:
    """By `assert`, by `raises`, or by a check that plugins are tested with."""
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
