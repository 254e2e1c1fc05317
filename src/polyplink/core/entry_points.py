"""Entry points of installed packages, by which these add parts to polyplink."""

import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def plugin_entries() -> "Sequence[EntryPoint]":
    """The entry points of all packages in groups that begin with "polyplink."."""
    return _entries_on(tuple(sys.path))


@cache
def _entries_on(path: tuple[str, ...]) -> "Sequence[EntryPoint]":
    """Those of a search path, read once: `--help` needs them often."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow

    entries = entry_points()
    groups = sorted(group for group in entries.groups if group.startswith("polyplink."))
    return [entry for group in groups for entry in entries.select(group=group)]


def package_of(entry: "EntryPoint") -> str:
    """The package that contains a plugin."""
    return entry.dist.name if entry.dist else entry.module
