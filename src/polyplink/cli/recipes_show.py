"""The verb `recipes show`: the fields of a recipe, and where their values come from."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument

from polyplink.cli import options
from polyplink.core.results import Result

if TYPE_CHECKING:
    from polyplink.recipes.provenance import FieldSource


def show_recipe(
    name: Annotated[str, Argument(help=options.RECIPE, autocompletion=options.RECIPES)],
    *,
    sets: options.Sets = (),
) -> "Result[list[FieldSource]]":
    """Show every field of a recipe with its source: the paper's text, its program, or ours.

    Args:
        name: Name of the recipe, or FILE.py:NAME.
        sets: Fields of the recipe to change: NAME=VALUE.

    Raises:
        PolyplinkError: If there is no such recipe or field.
    """
    from polyplink.recipes.by_name import find_recipe, override
    from polyplink.recipes.provenance import field_sources
    from polyplink.report.printed_tables import fields_table

    recipe = find_recipe(name)
    fields = field_sources(override(recipe, sets), recipe)
    return Result(fields, printed=[fields_table(name, fields)])
