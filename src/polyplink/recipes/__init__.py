"""Recipes: one function per published row."""

from polyplink.recipes.catalogue import RECIPES, field_names, find_recipe, override
from polyplink.recipes.ntssl import ntssl, ntssl_demo
from polyplink.recipes.small import small_sibling

__all__ = [
    "RECIPES",
    "field_names",
    "find_recipe",
    "ntssl",
    "ntssl_demo",
    "override",
    "small_sibling",
]
