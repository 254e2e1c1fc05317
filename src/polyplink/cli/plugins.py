"""The verb `plugins`: additions to polyplink by installed packages."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint

from polyplink.cli.command import GROUPS, build_command
from polyplink.cli.verb import verb
from polyplink.core.entry_points import package_of, plugin_entries
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.parts import REGISTRIES, VERBS
from polyplink.core.results import Result


@dataclass(frozen=True)
class Plugin:
    """A plugin that is installed.

    Attributes:
        name: The name that selects it in options and settings.
        kind: Kind of part: "loss", "clusterer", ...; "" if no registry reads its group.
        package: The package that contains it.
        version: Version of the package.
        error: Why it cannot be used; empty if it can.
    """

    name: str
    kind: str
    package: str
    version: str
    error: str = ""


@verb
def list_plugins() -> Result[list[Plugin]]:
    """List plugins: name, kind, package, version, and why one cannot be used.

    The exit code is 1 if one cannot be used, has the name of a built-in part, or is in no group
    of entry points that polyplink reads.
    """
    from rich.table import Table

    installed = [
        (kind, entry)
        for kind, registry in REGISTRIES.items()
        for entries in registry.installed().values()
        for entry in entries
    ]
    installed += [("", entry) for entry in _in_unread_groups()]
    plugins = [
        Plugin(
            entry.name,
            kind,
            package_of(entry),
            entry.dist.version if entry.dist else "",
            _error(kind, entry),
        )
        for kind, entry in installed
    ]
    code = int(any(plugin.error for plugin in plugins))
    if not plugins:
        kinds = ", ".join(REGISTRIES)
        return Result(plugins, printed=[f"no plugins; a package may add one as {kinds}"])
    table = Table("name", "kind", "package", "version", "error")
    for plugin in plugins:
        table.add_row(plugin.name, plugin.kind, plugin.package, plugin.version, plugin.error)
    return Result(plugins, printed=[table], code=code)


def _in_unread_groups() -> list[EntryPoint]:
    """Entry points of groups that begin with "polyplink." and that no registry reads."""
    groups = {registry.group for registry in REGISTRIES.values()}
    return [entry for entry in plugin_entries() if entry.group not in groups]


def _error(kind: str, entry: EntryPoint) -> str:
    """Why a plugin cannot be used; empty if it can."""
    try:
        if not kind:
            groups = [registry.group for registry in REGISTRIES.values()]
            find_named("group", entry.group, dict.fromkeys(groups))
        elif entry.name in REGISTRIES[kind] or (kind == VERBS.kind and entry.name in GROUPS):
            return f"not used: a built-in {kind} has the name {entry.name!r}; rename it"
        elif kind == VERBS.kind:
            build_command(entry.name)
        else:
            REGISTRIES[kind].find(entry.name)
    except PolyplinkError as error:
        return f"not used: {error}"
    return ""
