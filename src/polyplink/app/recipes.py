"""The verb `recipes show`: every field of a recipe, and where its value comes from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from polyplink.app.request import Progress, Result, Sets, inform

if TYPE_CHECKING:
    from polyplink.recipes.sources import FieldSource


@dataclass(frozen=True)
class RecipeRequest:
    """Which recipe to show, with which fields changed."""

    name: Annotated[str, Argument(help="Name of a recipe: ntssl, sfe, tpc, ...")]
    sets: Sets = ()


def show_recipe(request: RecipeRequest, progress: Progress = inform) -> "Result[list[FieldSource]]":
    """Show every field of a recipe with its source: the paper's text, its program, or ours.

    Raises:
        PolyplinkError: If there is no such recipe or field.
    """
    from rich.table import Table
    from rich.text import Text

    from polyplink.recipes import find_recipe, override
    from polyplink.recipes.sources import field_sources

    recipe = find_recipe(request.name)
    fields = field_sources(override(recipe, request.sets), recipe)
    table = Table("field", "value", "source", "note", title=request.name, title_justify="left")
    for field in fields:
        table.add_row(field.name, Text(str(field.value)), field.source, Text(field.note))
    return Result(fields, shown=[table])
