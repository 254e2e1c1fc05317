"""Recipes: one function per published row."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.recipes.by_name import (
        RECIPES as RECIPES,
        field_names as field_names,
        find_recipe as find_recipe,
        override as override,
    )
    from polyplink.recipes.ntssl import ntssl as ntssl, ntssl_demo as ntssl_demo
    from polyplink.recipes.small import small_sibling as small_sibling

hand_on(__name__)
