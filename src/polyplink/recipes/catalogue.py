"""Recipes by their command-line names."""

from collections.abc import Callable

from polyplink.core.errors import find_named
from polyplink.learn import TrainConfig
from polyplink.recipes.earlier import EARLIER
from polyplink.recipes.ntssl import NTSSL
from polyplink.recipes.small import SMALL
from polyplink.recipes.supervised import SUPERVISED

RECIPES: dict[str, Callable[[], TrainConfig]] = {
    recipe().name: recipe for recipe in (*NTSSL, *EARLIER, *SUPERVISED, *SMALL)
}


def find_recipe(name: str) -> TrainConfig:
    """A recipe by name.

    Raises:
        PolyplinkError: If there is none, naming the nearest or all.
    """
    return find_named("recipe", name, RECIPES)()
