"""Plugins: parts of other packages, found by entry points when a name is not built in.

A package names what it adds in its pyproject.toml, in one of the groups of `GROUPS`:

    [project.entry-points."polyplink.losses"]
    margin = "my_package.margin:MarginLoss"

Nothing of it is imported until the name is asked for.
"""

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from polyplink.core.errors import PolyplinkError, find_named, first_line, one_line

GROUPS = {
    "encoder": "polyplink.encoders",
    "loss": "polyplink.losses",
    "bags": "polyplink.bags",
    "clusterer": "polyplink.clusterers",
    "tracker": "polyplink.trackers",
    "layout": "polyplink.layouts",
    "importer": "polyplink.importers",
}
"""What a plugin may be -> the group of its entry point."""

Part = TypeVar("Part")


@dataclass(frozen=True)
class Plugin:
    """A plugin that is installed.

    Attributes:
        name: The name it is asked for by.
        kind: A key of `GROUPS`.
        package: The package that it comes with.
        version: Of the package.
        error: Why it cannot be used; empty if it can.
    """

    name: str
    kind: str
    package: str
    version: str
    error: str = ""


def plugins() -> list[Plugin]:
    """All plugins, by kind and name; each is imported to see whether it can be."""
    listed = []
    for kind in GROUPS:
        for entry in sorted(_entries(kind), key=lambda entry: entry.name):
            try:
                _load(kind, entry)
                error = ""
            except PolyplinkError as refusal:
                error = refusal.what
            version = entry.dist.version if entry.dist else ""
            listed.append(Plugin(entry.name, kind, _package(entry), version, error))
    return listed


def plugin_names(kind: str) -> list[str]:
    """Names of the plugins of a kind, without importing them; none of what cannot be a plugin."""
    return sorted(entry.name for entry in _entries(kind)) if kind in GROUPS else []


def find_part(kind: str, name: str, built_in: Mapping[str, Part]) -> Part:
    """What is built in under a name, or the plugin of that name.

    Args:
        kind: A key of `GROUPS`.
        name: The name that a user gave.
        built_in: By name; these are not looked up among plugins.

    Raises:
        PolyplinkError: If there is neither, or the plugin cannot be imported.

    Example:
        >>> find_part("clusterer", "threshold", {"threshold": 1})
        1
    """
    if name in built_in:
        return built_in[name]
    entries: dict[str, Any] = {entry.name: entry for entry in _entries(kind)}
    entry = find_named(kind, name, {**built_in, **entries})
    part: Part = _load(kind, entry)
    return part


def plugin_at_fault(error: BaseException) -> str:
    """The package of the plugin whose code raised an error; empty if polyplink's did."""
    every = [entry for kind in GROUPS for entry in _entries(kind)]
    owners = {entry.module.partition(".")[0]: _package(entry) for entry in every}
    package = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        package = owners.get(module, "" if module == "polyplink" else package)
    return package


def or_plugin(kind: str) -> Any:
    """For pydantic: the annotation of a union of classes that also takes classes of plugins.

    The union tells its classes apart by their field `kind`; where none of them has the kind of a
    value, the plugin of that name is the class.

    Args:
        kind: A key of `GROUPS`.
    """
    from pydantic import TypeAdapter, ValidationError, WrapValidator  # noqa: PLC0415 - slow

    def validate(value: Any, built_in: Any) -> Any:
        try:
            return built_in(value)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] != "union_tag_invalid":
                raise
            if not isinstance(value, Mapping):  # an object of a class of one's own
                return value
            built_in_kinds = first["ctx"]["expected_tags"].replace("'", "").split(", ")
        part: Any = find_part(kind, str(value["kind"]), dict.fromkeys(built_in_kinds))
        return TypeAdapter(part).validate_python(value)

    return WrapValidator(validate)


def _entries(kind: str) -> Iterable[EntryPoint]:
    return entry_points(group=GROUPS[kind])


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def _load(kind: str, entry: EntryPoint) -> Any:
    """Import a plugin.

    Raises:
        PolyplinkError: If that fails, whatever the reason.
    """
    try:
        return entry.load()
    except Exception as error:
        why = one_line(f"{type(error).__name__}: {first_line(error)}", 200)
        raise PolyplinkError(
            f"{kind} {entry.name!r} of the package {_package(entry)} cannot be imported ({why})",
            "correct the package, or uninstall it",
        ) from error
