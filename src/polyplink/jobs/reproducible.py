"""All published tables, what each needs, and whether it can be run now."""

from dataclasses import dataclass

from polyplink.jobs.subjects import NO_ENCODER, Workspace, has_recipe, what_is_missing
from polyplink.recipes.published import PublishedTable, published


@dataclass(frozen=True)
class TableState:
    """A published table and what it needs.

    Attributes:
        name: "ntssl/1".
        caption: What it shows.
        source: Paper and table.
        data: What it was measured on.
        cells: Its numbers.
        recipes: Subjects that a recipe trains.
        weights: Subjects whose weights come from elsewhere.
        missing: Subjects that cannot be had now, and how to mend it.
        runs: "whole", "in part" or "not": what can be run now, given the data.
    """

    name: str
    caption: str
    source: str
    data: str
    cells: int
    recipes: tuple[str, ...]
    weights: tuple[str, ...]
    missing: dict[str, str]
    runs: str


def table_state(table: PublishedTable, workspace: Workspace | None = None) -> TableState:
    """What a table needs, and what of it is missing."""
    missing = {name: why for name in table.subjects if (why := what_is_missing(name, workspace))}
    runs = "whole" if not missing else "not" if len(missing) == len(table.subjects) else "in part"
    return TableState(
        table.name,
        table.caption,
        table.source,
        table.data,
        len(table.cells),
        tuple(name for name in table.subjects if has_recipe(name)),
        tuple(name for name in table.subjects if not has_recipe(name) and name != NO_ENCODER),
        missing,
        runs,
    )


def list_tables(workspace: Workspace | None = None) -> list[TableState]:
    """The state of every published table, in the papers' order."""
    return [table_state(table, workspace) for table in published().values()]
