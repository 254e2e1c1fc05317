"""Compiled functions, cached on disk under a key that covers all source files compiled into them.

numba caches machine code between runs and invalidates it only when the function's own file changes.
But functions and constants of other files are compiled into it: after an update, old and new code
would be mixed, with wrong results or crashes. So the cache name contains a digest of the function's
file and of all files of the package that it imports, directly or indirectly. The imports of the
package's own `__init__.py` are not followed: they are its verbs, for type checkers only, and with
them every change of any file would compile every function anew.

Copy arrays in a loop, not by `a[:] = b`: for the assignment, numba also compiles the error message
for unequal shapes, which takes two seconds in every process without cached code.

Where no cache can be written, as for a service without a home folder, every process compiles anew.

numba is imported when a compiled function is first called. Without it (an installation without the
extra `encoders`) the functions run as plain Python: the same results, hundreds of times slower.
"""

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


@functools.cache
def _imports_of(path: Path, root: Path) -> tuple[Path, ...]:
    """Files of the package at `root` that a file imports."""
    text = path.read_text(encoding="utf-8")
    pattern = rf"^\s*(?:from|import) +{re.escape(root.name)}((?:\.\w+)*)"
    imported = []
    for dotted in re.findall(pattern, text, re.MULTILINE):
        place = root.joinpath(*dotted.split(".")[1:])
        imported += [p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()]
    return tuple(imported)


@functools.cache
def digest(path: Path, root: Path) -> str:
    """Hash a file and all files of its package that it imports, to twelve hexadecimal digits.

    Args:
        path: The file.
        root: The package's outermost folder.
    """
    package, files, pending = root / "__init__.py", {path}, [path]
    while pending:
        for imported in _imports_of(pending.pop(), root):
            if imported not in files:
                files.add(imported)
                if imported != package:
                    pending.append(imported)
    hashed = hashlib.blake2b(digest_size=6)
    for file in sorted(files):
        hashed.update(file.read_bytes())
    return hashed.hexdigest()


class _Compiled:
    """A function that is compiled at its first call, and otherwise behaves like one of numba."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._options = options

    @functools.cached_property
    def _dispatcher(self) -> Any:
        function: Any = self.__wrapped__
        try:
            import numba  # noqa: PLC0415
        except ModuleNotFoundError:
            return function
        path = Path(function.__code__.co_filename)
        if path.is_file():  # without source files there is no cache
            root = Path(cast("str", sys.modules[function.__module__.split(".")[0]].__file__)).parent
            function.__qualname__ += f"_{digest(path, root)}"
        options = {"nogil": True} | self._options
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder for the cache: neither package nor home can be written
            return numba.njit(**options)(function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._dispatcher(*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        # numba reads `_numba_type_` and the like from functions that compiled code calls.
        if name == "__wrapped__":  # a copy has no fields yet
            raise AttributeError(name)
        return getattr(self._dispatcher, name)


def njit(**options: Any) -> Callable[[Function], Function]:
    """Compile a function at its first call, releasing the GIL, and cache the machine code on disk.

    Args:
        options: Options of `numba.njit`, except `cache` and `nogil`, which are set here.
    """

    def decorate(function: Function) -> Function:
        return cast("Function", _Compiled(function, options))

    return decorate
