"""Registries: the parts of one kind by name, built in, from installed packages, or from a file.

A built-in part is declared as a package declares a plugin in its pyproject.toml, by a name and
"module:object" (core/parts.py has all tables):

    [project.entry-points."polyplink.losses"]
    margin = "my_package.margin:MarginLoss"

A part is imported when it is first used; listing names imports nothing.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polyplink.core.artefacts import file_key, from_plain
from polyplink.core.entry_points import package_of, plugin_entries
from polyplink.core.errors import (
    PART,
    USER_FILE,
    PolyplinkError,
    find_named,
    first_line,
    one_line,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part = TypeVar("Part")
Returned = TypeVar("Returned")
_DIGEST = "_polyplink_digest"  # attribute of a module: the content of its file when imported


class Registry(Mapping[str, Part], Generic[Part]):
    """Parts of one kind; as a mapping, the built-in parts by name, each imported when looked up.

    Args:
        kind: The kind of part, for messages ("clusterer").
        group: Group of the entry points with which packages add parts.
        built_in: "module:object" by name.
        needs: Methods that a part of a package or file must have.
        instance_of: "module:class" of which such a part must be an instance; "" for any.

    Example:
        >>> clusterers = Registry[type]("clusterer", "x", {"links": "fractions:Fraction"})
        >>> clusterers.find("links").__name__
        'Fraction'
        >>> clusterers.find("link")
        Traceback (most recent call last):
        polyplink.core.errors.PolyplinkError: no clusterer 'link'; did you mean links?
    """

    def __init__(
        self,
        kind: str,
        group: str,
        built_in: Mapping[str, str],
        needs: Sequence[str] = (),
        instance_of: str = "",
    ) -> None:
        self.kind, self.group, self.needs, self.instance_of = kind, group, needs, instance_of
        self._built_in = built_in
        self._taken: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        part: Part = resolve_name(self._built_in[name])
        return part

    def __contains__(self, name: object) -> bool:
        return name in self._built_in  # a mapping would look the part up, which imports it

    def __iter__(self) -> Iterator[str]:
        return iter(self._built_in)

    def __len__(self) -> int:
        return len(self._built_in)

    def installed(self) -> "dict[str, list[EntryPoint]]":
        """Plugins by name, sorted, without importing them: one, unless packages share a name."""
        plugins: dict[str, list[EntryPoint]] = {}
        entries = [entry for entry in plugin_entries() if entry.group == self.group]
        for entry in sorted(entries, key=lambda entry: entry.name):
            plugins.setdefault(entry.name, []).append(entry)
        return plugins

    def names(self) -> list[str]:
        """All names: of built-in parts, of plugins, and of parts taken from files."""
        return list(dict.fromkeys([*self, *self.installed(), *self._taken]))

    def find(self, name: str) -> Part:
        """The part with a name: built in, taken before (see `take`), or a plugin.

        Raises:
            PolyplinkError: If no part has the name, several packages have one, or the plugin cannot
                be imported.
        """
        if name in self:
            return self[name]
        if name in self._taken:
            return self._taken[name]
        if ".py:" in name:
            raise PolyplinkError(
                f"{name}: a {self.kind} is not taken from a file here",
                "name it in the pyproject.toml of a package; the how-to on adding parts says how",
            )
        if name.endswith(".py"):
            raise PolyplinkError(f"{name} is a file", f"give {name}:NAME of a {self.kind} in it")
        plugins = self.installed()
        parts = {**self._built_in, **plugins, **dict.fromkeys(self._taken)}
        find_named(self.kind, name, parts)
        packages = " and ".join(map(package_of, plugins[name]))
        if len(plugins[name]) != 1:
            raise PolyplinkError(
                f"the packages {packages} have a {self.kind} of one name, {name!r}",
                "uninstall all but one",
            )
        described = f"{self.kind} {name!r} of the package {packages}"
        try:
            part = plugins[name][0].load()
        except (Exception, SystemExit) as error:
            reason = one_line(f"{type(error).__name__}: {first_line(error)}", 200)
            raise PolyplinkError(
                f"{described} cannot be imported ({reason})",
                "correct the package, or uninstall it",
            ) from error
        kind = getattr(part, "kind", name)
        if kind != name:
            raise PolyplinkError(
                f"{described} has the kind {kind!r}", f"name its entry point {kind!r}"
            )
        return self._checked(part, described)

    def fits(self, part: Any) -> bool:
        """Whether an object of a file has what a part of this kind needs."""
        return not self._lack_of(part)

    def _checked(self, part: Any, owner: str) -> Part:
        lack = self._lack_of(part)
        if lack:
            raise PolyplinkError(
                f"{owner} {lack}", f"the how-to on adding parts describes the kind {self.kind}"
            )
        checked: Part = part
        return checked

    def _lack_of(self, part: Any) -> str:
        """What an object lacks to be a part of this kind; empty if nothing."""
        if self.instance_of and not isinstance(part, resolve_name(self.instance_of)):
            return f"is not a {self.instance_of.replace(':', '.')}"
        lacking = [name for name in self.needs if not callable(getattr(part, name, None))]
        if lacking:
            return f"has no {' and no '.join(lacking)}"
        return ""

    def in_use(self) -> dict[str, Part]:
        """By name, the built-in parts, then those of packages and files that were taken."""
        return {**self, **self._taken}

    def take(self, names: Sequence[str]) -> tuple[str, ...]:
        """Check names as typed; FILE.py:NAME adds a part of a file to the registry as NAME.

        Returns:
            The names under which `find` returns the parts, each once.

        Raises:
            PolyplinkError: If there is no such part or file, a built-in part has the name, or two
                parts have one name.
        """
        text_of: dict[str, str] = {}
        for text in names:
            name = self._take(text)
            if text_of.setdefault(name, text) != text:
                raise PolyplinkError(
                    f"{text_of[name]} and {text} have one name", f"rename one {self.kind}"
                )
        return tuple(text_of)

    def _take(self, text: str) -> str:
        if text in self:  # not imported, so that mistakes in other options are reported at once
            return text
        name, part = self.typed(text)
        self._taken[name] = part
        return name

    def typed(self, text: str) -> tuple[str, Part]:
        """The name and the part of a text that a user typed: a name, or FILE.py:NAME.

        Raises:
            PolyplinkError: If there is no such part or file, or a built-in part has the name.
        """
        file, python, name = text.partition(".py:")
        if not python:
            return text, self.find(text)
        part = object_of_file(Path(f"{file}.py"), name, self.kind)
        if name in self:
            raise PolyplinkError(f"{text}: a built-in {self.kind} has this name", "rename it")
        return name, self._checked(part, text)

    def code_of(self, text: str) -> tuple[Path, str]:
        """The Python file of a part that is not built in, and the version of its package.

        Args:
            text: A name or FILE.py:NAME of which `typed` returns the part.
        """
        file, python, _ = text.partition(".py:")
        if python:
            return Path(f"{file}.py"), ""
        entry = self.installed()[text][0]
        module = importlib.import_module(entry.module)
        return Path(str(module.__file__)), entry.dist.version if entry.dist else ""

    def check_settings(self, part: Any, owner: str) -> None:
        """Check a part that a recipe of a file holds, before any work.

        Args:
            part: The part.
            owner: The recipe, for messages.

        Raises:
            PolyplinkError: If it cannot be recorded or used, or has the kind of a built-in part.
        """
        kind, described = getattr(part, "kind", None), f"the {self.kind} of {owner}"
        if not is_dataclass(part) or isinstance(part, type) or not isinstance(kind, str):
            raise PolyplinkError(
                f"{described}, {one_line(repr(part), 60)}, is not a dataclass with a field `kind`",
                f"the how-to on adding parts describes the kind {self.kind}",
            )
        if kind not in self:
            self._checked(part, described)
            return
        built_in: Any = self[str(kind)]
        if not isinstance(part, built_in):
            raise PolyplinkError(
                f"{described} has the kind {kind!r}, and a built-in {self.kind} has this name",
                "rename its kind",
            )

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Attribute the exceptions of a block to a part, unless it is built in.

        The traceback does not always show the part: a call with wrong arguments fails in polyplink,
        and an exception of a worker process arrives without its frames.
        """
        try:
            yield
        except PolyplinkError:
            raise
        except (Exception, SystemExit) as error:
            if name not in self:
                vars(error)[PART] = f"{self.kind} {name!r}"
            raise

    def check_returned(self, name: str, value: Any, returned: type[Returned]) -> Returned:
        """Check the class of what a part returned.

        Args:
            name: The part.
            value: What it returned.
            returned: The class of what parts of this kind return.

        Raises:
            PolyplinkError: If the value is not an instance of the class.
        """
        if isinstance(value, returned):
            return value
        needed = f"{returned.__module__}.{returned.__qualname__}"
        raise PolyplinkError(
            f"{self.kind} {name!r} returns {type(value).__name__}", f"return a {needed}"
        )

    def of_kind(self, default: str | None = None) -> Any:
        """The pydantic annotation of a field that holds a part, with its class named by `kind`.

        Args:
            default: The kind of a record without the field `kind`.
        """
        from pydantic import BeforeValidator  # noqa: PLC0415 - slow

        def validate(value: Any) -> Any:
            if isinstance(value, Mapping):
                kind: Any = self.find(str(value.get("kind", default)))
                return from_plain(kind, value)
            if not isinstance(getattr(value, "kind", None), str):  # plugins' classes included
                raise ValueError(f"a {self.kind} has a field kind, and {value!r} has none")  # noqa: TRY004
            return value

        return BeforeValidator(validate)


def object_of_file(path: Path, name: str, kind: str) -> Any:
    """Import a Python file of the user's and return the object with a name.

    Args:
        path: The file.
        name: Name of a class, function or value in the file.
        kind: Kind of part that the object is needed for, for messages.

    Raises:
        PolyplinkError: If the file or the name does not exist, or the file cannot be imported.
    """
    module = import_file(path, kind)
    if not hasattr(module, name):
        raise PolyplinkError(f"{path} has no {kind} {name!r}", f"give {path}:NAME of one in it")
    return getattr(module, name)


def import_file(path: Path, kind: str) -> ModuleType:
    """Import a Python file of the user's, in a way that lets worker processes import it too.

    A file that has changed since it was imported is imported again.

    Raises:
        PolyplinkError: If the file does not exist or cannot be imported, or another module has its
            name.
    """
    if not path.is_file():
        raise PolyplinkError(f"no file {path}", f"give FILE.py:NAME of a {kind}")
    folder = str(path.parent.resolve())
    if folder not in sys.path:  # worker processes inherit the path
        sys.path.insert(0, folder)
    digest, before = file_key(path), sys.modules.get(path.stem)
    if before is not None and getattr(before, _DIGEST, digest) != digest:
        del sys.modules[path.stem]
        if before.__spec__ is not None and before.__spec__.cached:
            # Python compares only size and time (in seconds) of the file with those compiled.
            Path(before.__spec__.cached).unlink(missing_ok=True)
    try:
        module = importlib.import_module(path.stem)
    except PolyplinkError as error:
        raise PolyplinkError(f"{path}: {error.what}", error.hint) from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {f.lineno}" for f in frames if f.filename == str(path.resolve())]
        reason = f"{type(error).__name__}: {first_line(error)}{lines[-1] if lines else ''}"
        raise PolyplinkError(f"{path} cannot be imported ({reason})", "correct it") from error
    if Path(str(module.__file__)).resolve() != path.resolve():
        raise PolyplinkError(
            f"there is another module called {path.stem}, {module.__file__}", f"rename {path}"
        )
    vars(module).update({USER_FILE: str(path), _DIGEST: digest})
    return module


def keys_of_files(*parts: object) -> dict[str, str]:
    """Name of each single file that defines one of `parts` -> key of its content.

    A part of a package or of the running script is in no such file.
    """
    keys = {}
    for part in parts:
        module = sys.modules[type(part).__module__]
        path = getattr(module, "__file__", None)
        if path is not None and not module.__package__ and module.__name__ != "__main__":
            # A worker process imports the file without `import_file`.
            keys[Path(path).name] = getattr(module, _DIGEST, None) or file_key(Path(path))
    return keys
