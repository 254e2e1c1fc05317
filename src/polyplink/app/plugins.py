"""The verb `plugins`: what other packages add."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polyplink.app.options import Request
from polyplink.app.request import Progress, Result, inform

if TYPE_CHECKING:
    from polyplink.core.plugins import Plugin


@dataclass(frozen=True)
class PluginsRequest(Request):
    """Nothing to choose."""


def list_plugins(request: PluginsRequest, progress: Progress = inform) -> "Result[list[Plugin]]":
    """List plugins: name, kind, package, version, and why one cannot be used.

    The exit code is 1 if one cannot be imported.
    """
    from rich.table import Table

    from polyplink.core.plugins import GROUPS, plugins

    found = plugins()
    code = int(any(one.error for one in found))
    if not found:
        kinds = ", ".join(GROUPS)
        return Result(found, shown=[f"no plugins; a package may add one as {kinds}"])
    table = Table("name", "kind", "package", "version", "error")
    for one in found:
        table.add_row(one.name, one.kind, one.package, one.version, one.error)
    return Result(found, shown=[table], code=code)
