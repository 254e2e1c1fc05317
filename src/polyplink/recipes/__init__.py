"""Recipes: one function per published row."""

from polyplink.recipes.catalogue import RECIPES, find_recipe
from polyplink.recipes.ntssl import ntssl, ntssl_demo
from polyplink.recipes.overrides import field_names, override
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
