"""The verb `recipes list`: the recipes for `train`."""

import inspect

from polyplink.core.results import Result


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
