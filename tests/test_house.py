"""The rules of the house, kept by a test: who may import whom, and how long things get."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "polyplink"
ROOMS = [
    "data",
    "simulate",
    "tracklets",
    "encoders",
    "learn",
    "associate",
    "evaluate",
    "recipes",
    "report",
    "bench",
    "jobs",
    "cli",
]
BASE = {
    "errors",
    "artefacts",
    "compiled",
    "workers",
    "_torchvision",
    "__version__",
    "PolyplinkError",
}
ENTRY = "__main__"  # above everything: it calls the command line
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a file imports from, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == "polyplink":
                found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.split(".")[1]
                for alias in node.names
                if alias.name.startswith("polyplink.")
            }
    return found - BASE


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    room, rooms = room_of(path), imported_rooms(path)
    if room == ENTRY:
        assert rooms == {"cli"}
        return
    rooms -= {ENTRY} if room == "bench" else set()
    if room not in ROOMS:  # the base and the package's face import no room
        assert not rooms
        return
    allowed = {"data", room} if room == "simulate" else set(ROOMS[: ROOMS.index(room) + 1])
    assert rooms <= allowed, f"{path} imports {rooms - allowed}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 450
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 70, f"{path}: {node.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_faces_hold_no_code(path: Path) -> None:
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    nodes = ast.parse(path.read_text()).body
    if path.name == "__init__.py":
        assert all(isinstance(node, allowed) for node in nodes)
    else:
        assert isinstance(nodes[0], ast.Expr), f"{path} has no docstring"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.name == "__init__.py"],
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_faces_hand_on_what_they_name(path: Path) -> None:
    held, named = {"__version__"}, []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            held |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            named = ast.literal_eval(node.value)
    assert set(named) <= held


def test_every_file_has_its_test() -> None:
    missing = [
        str(path.relative_to(SOURCE))
        for path in FILES
        if path.name != "__init__.py"
        and not (
            ROOT
            / "tests"
            / path.relative_to(SOURCE).parent
            / f"test_{path.name.lstrip('_').replace('main__', 'main')}"
        ).is_file()
    ]
    assert not missing


def test_every_test_asserts() -> None:
    silent = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.unparse(node)
                if "assert" not in text and "raises" not in text:
                    silent.append(f"{path.name}:{node.name}")
    assert not silent
