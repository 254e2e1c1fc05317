"""The verb `plugins`: additions to polyplink by installed packages."""

from typing import TYPE_CHECKING

from polyplink.cli.verb import verb
from polyplink.core.results import Result

if TYPE_CHECKING:
    from polyplink.core.registry import Plugin


@verb
def list_plugins() -> "Result[list[Plugin]]":
    """List plugins: name, kind, package, version, and why one cannot be used.

    The exit code is 1 if one cannot be imported, has the name of a built-in part, or is in no group
    of entry points that polyplink reads.
    """
    from rich.table import Table

    from polyplink.core.parts import REGISTRIES
    from polyplink.core.registry import misplaced_plugins

    plugins = [plugin for registry in REGISTRIES.values() for plugin in registry.plugins()]
    plugins += misplaced_plugins({registry.group: kind for kind, registry in REGISTRIES.items()})
    code = int(any(plugin.error for plugin in plugins))
    if not plugins:
        kinds = ", ".join(REGISTRIES)
        return Result(plugins, printed=[f"no plugins; a package may add one as {kinds}"])
    table = Table("name", "kind", "package", "version", "error")
    for plugin in plugins:
        table.add_row(plugin.name, plugin.kind, plugin.package, plugin.version, plugin.error)
    return Result(plugins, printed=[table], code=code)
