"""Recipes by the name that the command line knows them by."""

from collections.abc import Callable

from polyplink.errors import find_named
from polyplink.learn import TrainConfig
from polyplink.recipes.ntssl import ntssl, ntssl_demo

RECIPES: dict[str, Callable[[], TrainConfig]] = {
    recipe().name: recipe for recipe in (ntssl, ntssl_demo)
}


def find_recipe(name: str) -> TrainConfig:
    """A recipe by name.

    Raises:
        PolyplinkError: If there is none, naming the nearest or all.
    """
    return find_named("recipe", name, RECIPES)()
