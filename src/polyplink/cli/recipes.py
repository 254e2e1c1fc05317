"""The verbs `recipes list` and `recipes show`: recipes for `train`, and their fields."""

import inspect
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from polyplink.cli import options
from polyplink.cli.verb import verb
from polyplink.core.results import Result

if TYPE_CHECKING:
    from polyplink.recipes.provenance import FieldSource


@verb
def list_recipes() -> Result[list[dict[str, str]]]:
    """List the recipes: name, training part, whether polyp ids are needed, and description."""
    from rich.table import Table

    from polyplink.learn.train_config import NEED_POLYPS
    from polyplink.recipes.by_name import RECIPES

    columns = ("recipe", "part", "needs polyp ids", "what it is")
    table = Table(*columns)
    rows: list[dict[str, str]] = []
    for name, recipe in RECIPES.items():
        built = recipe()
        needs = "yes" if built.bags.kind in NEED_POLYPS else "no"
        summary = (inspect.getdoc(recipe) or "").partition("\n")[0]
        rows.append(dict(zip(columns, (name, built.part, needs, summary), strict=True)))
        table.add_row(*rows[-1].values())
    fields = "fields of one: polyplink recipes show NAME"
    return Result(rows, printed=[table, fields])


@verb
def show_recipe(
    name: Annotated[
        str, Argument(help=options.RECIPE_HELP, autocompletion=options.complete_recipes)
    ],
    *,
    sets: options.Sets = (),
) -> "Result[list[FieldSource]]":
    """Show every field of a recipe with its source: the paper's text, its program, or ours.

    Raises:
        PolyplinkError: If there is no such recipe or field.
    """
    from polyplink.recipes.by_name import find_recipe, override
    from polyplink.recipes.provenance import field_sources
    from polyplink.report.printed_tables import fields_table

    recipe = find_recipe(name)
    fields = field_sources(override(recipe, sets), recipe)
    return Result(fields, printed=[fields_table(name, fields)])
