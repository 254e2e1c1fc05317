"""Recipes by the name that the command line knows them by."""

from collections.abc import Callable
from difflib import get_close_matches

from polyplink.errors import PolyplinkError
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
    if name not in RECIPES:
        near = get_close_matches(name, RECIPES, n=1)
        mend = f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(RECIPES)}"
        raise PolyplinkError(f"no recipe {name!r}", mend)
    return RECIPES[name]()
