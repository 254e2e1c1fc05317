import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import polyplink.core.compiled
from polyplink.core.compiled import digest, njit

BASE = "STEP = {step}\n\n\ndef unread() -> None:\n    pass\n"
CALLEE = """from polyplink.core.compiled import njit

from pack.base import STEP


@njit()
def step(x):
    return x + STEP
"""
CALLER = """from polyplink.core.compiled import njit

from pack.inner.callee import step


@njit()
def twice(x):
    return step(step(x))
"""


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A package with a function that inlines another function, which inlines a constant."""
    root = tmp_path / "pack"
    (root / "inner").mkdir(parents=True)
    for path, text in {
        "__init__.py": "",
        "base.py": BASE.format(step=1),
        "inner/__init__.py": "",
        "inner/callee.py": CALLEE,
        "caller.py": CALLER,
        "other.py": "",
    }.items():
        (root / path).write_text(text)
    return root


def twice_of_one(pack: Path, cache: Path) -> int:
    """Result of `twice(1)` in a fresh interpreter that uses the compiled code in `cache`."""
    # The source folder of the checkout, or the folder of the installed package.
    parts = [str(pack.parent), str(Path(polyplink.core.compiled.__file__).parents[2])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(parts), "NUMBA_CACHE_DIR": str(cache)}
    program = "\n".join(
        (
            "from pack.caller import twice",
            "print(twice(1))",
            "print(sum(twice.stats.cache_hits.values()))",
        )
    )
    result = subprocess.run(
        [sys.executable, "-B", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    value, hits = result.stdout.split()
    (cache / "hits").write_text(hits)
    return int(value)


@pytest.mark.slow
def test_cached_code_is_not_used_after_an_inlined_constant_changed(
    pack: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    assert twice_of_one(pack, cache) == 3
    assert (cache / "hits").read_text() == "0"
    assert twice_of_one(pack, cache) == 3
    assert (cache / "hits").read_text() == "1"
    (pack / "base.py").write_text(BASE.format(step=100))
    assert twice_of_one(pack, cache) == 201


def increased(x: int) -> int:
    """A function to compile, in a file of the package `tests`."""
    return x + 1


def test_functions_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])  # no folder can be written
    compiled: Any = njit()(increased)
    assert compiled(1) == 2
    assert compiled.signatures  # compiled, not run as Python


def fresh_digest(pack: Path) -> str:
    digest.cache_clear()
    polyplink.core.compiled._imports_of.cache_clear()
    return digest(pack / "caller.py", pack)


def test_the_digest_covers_all_imported_modules(pack: Path) -> None:
    first = fresh_digest(pack)
    assert fresh_digest(pack) == first
    (pack / "other.py").write_text("X = 1\n")
    assert fresh_digest(pack) == first
    (pack / "base.py").write_text(BASE.format(step=2))
    second = fresh_digest(pack)
    assert second != first
    (pack / "inner" / "__init__.py").write_text("Y = 1\n")
    assert fresh_digest(pack) == second
    (pack / "base.py").write_text("from pack import other\n" + BASE.format(step=2))
    third = fresh_digest(pack)
    assert third != second
    (pack / "inner" / "callee.py").write_text(CALLEE.replace("x + STEP", "x + 2 * STEP"))
    assert fresh_digest(pack) not in (first, second, third)


def test_the_verbs_of_a_package_do_not_change_the_digest(pack: Path) -> None:
    (pack / "__init__.py").write_text("VERSION = 1\nfrom pack.other import X\n")
    (pack / "base.py").write_text("from pack import VERSION\n" + BASE.format(step=1))
    first = fresh_digest(pack)
    (pack / "other.py").write_text("X = 1\n")
    assert fresh_digest(pack) == first
    (pack / "__init__.py").write_text("VERSION = 2\n")
    assert fresh_digest(pack) != first


def test_every_cached_function_uses_the_stamped_cache() -> None:
    """No function may use numba's own caching."""
    root = Path(polyplink.core.compiled.__file__).parents[2]
    for path in root.rglob("*.py"):
        if path.name != "compiled.py":
            assert "cache=True" not in path.read_text(), path
