"""The verbs `recipes list`, `recipes show` and `plugins`: what there is to choose from."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import Request
from polyplink.cli.verb import Result, inform
from polyplink.core.progress import Progress

if TYPE_CHECKING:
    from polyplink.core.registry import Plugin
    from polyplink.recipes.sources import FieldSource


def list_recipes(request: Request, progress: Progress = inform) -> Result[list[dict[str, str]]]:
    """List the recipes: name, the part it trains on, whether it needs polyp ids, and what it is."""
    from rich.table import Table

    from polyplink.learn.config import NEED_POLYPS
    from polyplink.recipes import RECIPES

    columns = ("recipe", "part", "needs polyp ids", "what it is")
    table, rows = Table(*columns), list[dict[str, str]]()
    for name, recipe in RECIPES.items():
        built = recipe()
        needs = "yes" if built.bags.kind in NEED_POLYPS else "no"
        summary = (inspect.getdoc(recipe) or "").partition("\n")[0]
        rows.append(dict(zip(columns, (name, built.part, needs, summary), strict=True)))
        table.add_row(*rows[-1].values())
    fields = "fields of one: polyplink recipes show NAME"
    return Result(rows, shown=[table, fields])


@dataclass(frozen=True)
class RecipeRequest(Request):
    """Which recipe to show, with which fields changed."""

    name: Annotated[str, Argument(help=options.RECIPE, autocompletion=options.RECIPES)]
    sets: options.Sets = ()


def show_recipe(request: RecipeRequest, progress: Progress = inform) -> "Result[list[FieldSource]]":
    """Show every field of a recipe with its source: the paper's text, its program, or ours.

    Raises:
        PolyplinkError: If there is no such recipe or field.
    """
    from polyplink.recipes import find_recipe, override
    from polyplink.recipes.sources import field_sources
    from polyplink.report.tables import fields_table

    recipe = find_recipe(request.name)
    fields = field_sources(override(recipe, request.sets), recipe)
    return Result(fields, shown=[fields_table(request.name, fields)])


def list_plugins(request: Request, progress: Progress = inform) -> "Result[list[Plugin]]":
    """List plugins: name, kind, package, version, and why one cannot be used.

    The exit code is 1 if one cannot be imported.
    """
    from rich.table import Table

    from polyplink.core.parts import REGISTRIES

    plugins = [plugin for registry in REGISTRIES.values() for plugin in registry.plugins()]
    code = int(any(plugin.error for plugin in plugins))
    if not plugins:
        kinds = ", ".join(REGISTRIES)
        return Result(plugins, shown=[f"no plugins; a package may add one as {kinds}"])
    table = Table("name", "kind", "package", "version", "error")
    for plugin in plugins:
        table.add_row(plugin.name, plugin.kind, plugin.package, plugin.version, plugin.error)
    return Result(plugins, shown=[table], code=code)
