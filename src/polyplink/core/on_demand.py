"""Imports that happen when a name is first used: faces of rooms, and torch in modules of settings.

Importing torch takes two seconds, and an installation without the extra `encoders` has none. A face
(the `__init__.py` of a room) imports a module when one of the names that it hands on is asked for.
A module that defines settings beside what computes with them imports torch from here.
"""

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Face(ModuleType):
    """A package that imports a module when a name that it hands on from there is asked for."""

    _modules: dict[str, str]  # by the names that they define

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("_modules", {}).get(name)
        if module is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            imported = importlib.import_module(module)
        except AttributeError as error:  # Python would say that the face lacks the name
            raise ImportError(f"{module} cannot be imported ({error})", name=module) from error
        value = getattr(imported, name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python stores every imported submodule in its package. The function `embed` of the module
        # `embed` keeps its place.
        if isinstance(value, ModuleType) and self._modules.get(name) == value.__name__:
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._modules})


def hand_on(package: str) -> None:
    """Hand on what a package imports under `if TYPE_CHECKING`, each name when it is asked for.

    The names are its `__all__`. `Name as Name` tells type checkers that a name is handed on.

    Args:
        package: Its `__name__`.
    """
    package_module = sys.modules[package]
    tree = ast.parse(Path(str(package_module.__file__)).read_text(encoding="utf-8"))
    checked = [part for node in tree.body if isinstance(node, ast.If) for part in node.body]
    modules = {
        alias.name: node.module
        for node in checked
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    package_module.__dict__.update(_modules=modules, __all__=sorted(modules))
    package_module.__class__ = _Face


class _OnDemand(ModuleType):
    """A module that is imported when one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414 - so that other modules may import it from here
else:
    torch = _OnDemand("torch")
