"""Registries: the parts of one kind by name, built in, of installed packages, or of a file.

A built-in part is declared as a package declares a plugin in its pyproject.toml, by a name and
"module:object" (core/parts.py has all tables):

    [project.entry-points."polyplink.losses"]
    margin = "my_package.margin:MarginLoss"

Nothing of a part is imported until it is asked for; names cost nothing.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polyplink.core.artefacts import from_plain
from polyplink.core.errors import PolyplinkError, find_named, first_line, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part = TypeVar("Part")
_FILES: dict[str, str] = {}  # by the name of its module, a file that parts were taken from


@dataclass(frozen=True)
class Plugin:
    """A plugin that is installed.

    Attributes:
        name: The name it is asked for by.
        kind: What it is: "loss", "clusterer", ...
        package: The package that it comes with.
        version: Of the package.
        error: Why it cannot be used; empty if it can.
    """

    name: str
    kind: str
    package: str
    version: str
    error: str = ""


class Registry(Mapping[str, Part], Generic[Part]):
    """Parts of one kind; as a mapping, those built in by name, imported when one is looked up.

    Args:
        kind: What the parts are, for messages ("clusterer").
        group: Group of the entry points by which packages add others.
        built_in: By name, "module:object".
        needs: Names of what a part has; one of a package or file that lacks one is refused.

    Example:
        >>> clusterers = Registry[type]("clusterer", "x", {"links": "fractions:Fraction"})
        >>> clusterers.find("links").__name__
        'Fraction'
        >>> clusterers.find("link")
        Traceback (most recent call last):
        polyplink.core.errors.PolyplinkError: no clusterer 'link'; did you mean links?
    """

    def __init__(
        self, kind: str, group: str, built_in: Mapping[str, str], needs: Sequence[str] = ()
    ) -> None:
        self.kind, self.group, self.needs = kind, group, needs
        self._built_in = built_in
        self._chosen: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        module, _, name_there = self._built_in[name].partition(":")
        part: Part = getattr(importlib.import_module(module), name_there)
        return part

    def __contains__(self, name: object) -> bool:
        return name in self._built_in  # a mapping would look the part up, which imports it

    def __iter__(self) -> Iterator[str]:
        return iter(self._built_in)

    def __len__(self) -> int:
        return len(self._built_in)

    def installed(self) -> "dict[str, EntryPoint]":
        """Plugins by name, sorted, without importing them."""
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow

        entries = entry_points(group=self.group)
        return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}

    def names(self) -> list[str]:
        """All names: built in, of plugins, and taken from files."""
        return list(dict.fromkeys([*self, *self.installed(), *self._chosen]))

    def find(self, name: str) -> Part:
        """The part of a name: built in, taken before, or a plugin's; see `take`.

        Raises:
            PolyplinkError: If there is none, or the plugin cannot be imported.
        """
        if name in self:
            return self[name]
        if name in self._chosen:
            return self._chosen[name]
        entries = self.installed()
        parts = {**self._built_in, **entries, **dict.fromkeys(self._chosen)}
        find_named(self.kind, name, parts)
        part = _load(self.kind, entries[name])
        return self._checked(part, f"{self.kind} {name!r} of the package {_package(entries[name])}")

    def _checked(self, part: Any, owner: str) -> Part:
        lacking = [name for name in self.needs if not callable(getattr(part, name, None))]
        PolyplinkError.unless(
            not lacking,
            f"{owner} has no {' and no '.join(lacking)}",
            f"the how-to on adding parts says what a {self.kind} is",
        )
        checked: Part = part
        return checked

    def in_use(self) -> dict[str, Part]:
        """Those built in, then those of packages and files that were taken, by name."""
        return {**self, **self._chosen}

    def take(self, names: Sequence[str]) -> tuple[str, ...]:
        """Check names as typed; a part of a file, FILE.py:NAME, joins the registry under its NAME.

        Returns:
            The names by which `find` has the parts, each once.

        Raises:
            PolyplinkError: If there is no such part or file, or a built-in part has the name.
        """
        return tuple(dict.fromkeys(map(self._take, names)))

    def _take(self, text: str) -> str:
        file, python, name = text.partition(".py:")
        if text in self:  # not imported: mistakes are answered at once
            return text
        if not python:
            self._chosen[text] = self.find(text)
            return text
        part = object_of_file(Path(f"{file}.py"), name, self.kind)
        PolyplinkError.unless(
            name not in self, f"{text}: a built-in {self.kind} has this name", "rename it"
        )
        self._chosen[name] = self._checked(part, text)
        return name

    def plugins(self) -> list[Plugin]:
        """Its plugins by name; each is imported to see whether it can be."""
        return [self._plugin(entry) for entry in self.installed().values()]

    def _plugin(self, entry: "EntryPoint") -> Plugin:
        version, error = entry.dist.version if entry.dist else "", ""
        try:
            _load(self.kind, entry)
        except PolyplinkError as refusal:
            error = refusal.what
        return Plugin(entry.name, self.kind, _package(entry), version, error)

    def of_kind(self, default: str | None = None) -> Any:
        """For pydantic: the annotation of a field with a `kind` in its value that names its class.

        Args:
            default: The kind of a record that has none.
        """
        from pydantic import BeforeValidator  # noqa: PLC0415 - slow

        def validate(value: Any) -> Any:
            if isinstance(value, Mapping):
                kind: Any = self.find(str(value.get("kind", default)))
                return from_plain(kind, value)
            if not isinstance(getattr(value, "kind", None), str):  # of a class of one's own too
                raise ValueError(f"a {self.kind} has a field kind, and {value!r} has none")  # noqa: TRY004
            return value

        return BeforeValidator(validate)


def object_of_file(path: Path, name: str, kind: str) -> Any:
    """What a Python file of the user's calls `name`.

    Args:
        path: The file.
        name: Of a class, function or value in it.
        kind: What it is wanted as, for messages.

    Raises:
        PolyplinkError: If there is no such file or name, or the file cannot be imported.
    """
    module = import_file(path, kind)
    PolyplinkError.unless(
        hasattr(module, name), f"{path} has no {kind} {name!r}", f"write {path}:NAME of one in it"
    )
    return getattr(module, name)


def import_file(path: Path, kind: str) -> ModuleType:
    """Import a Python file of the user's; worker processes find it too.

    Raises:
        PolyplinkError: If there is no such file, it cannot be imported, or another module has its
            name.
    """
    PolyplinkError.unless(path.is_file(), f"no file {path}", f"write FILE.py:NAME of a {kind}")
    folder = str(path.parent.resolve())
    if folder not in sys.path:  # where worker processes look for modules too
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(path.stem)
    except PolyplinkError:
        raise
    except Exception as error:
        raise PolyplinkError(
            f"{path} cannot be imported ({type(error).__name__}: {first_line(error)})", "correct it"
        ) from error
    PolyplinkError.unless(
        Path(str(module.__file__)).resolve() == path.resolve(),
        f"there is another module called {path.stem}, {module.__file__}",
        f"rename {path}",
    )
    _FILES[path.stem] = str(path)
    return module


def plugin_at_fault(error: BaseException, registries: Sequence[Registry[Any]]) -> str:
    """The package or file of the part that raised an error; empty if polyplink did."""
    entries = [entry for registry in registries for entry in registry.installed().values()]
    owners = {entry.module.partition(".")[0]: _package(entry) for entry in entries} | _FILES
    owner = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        owner = owners.get(module, "" if module == "polyplink" else owner)
    return owner


def _package(entry: "EntryPoint") -> str:
    return entry.dist.name if entry.dist else entry.module


def _load(kind: str, entry: "EntryPoint") -> Any:
    """Import a plugin; any failure becomes a `PolyplinkError`."""
    try:
        return entry.load()
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {first_line(error)}", 200)
        raise PolyplinkError(
            f"{kind} {entry.name!r} of the package {_package(entry)} cannot be imported ({reason})",
            "correct the package, or uninstall it",
        ) from error
