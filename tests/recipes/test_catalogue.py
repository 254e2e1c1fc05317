"""Recipes by name."""

import pytest

from polyplink.errors import PolyplinkError
from polyplink.recipes import RECIPES, find_recipe


def test_every_recipe_goes_by_its_own_name() -> None:
    assert set(RECIPES) == {"ntssl", "ntssl-demo"}
    for name, recipe in RECIPES.items():
        assert recipe().name == name == find_recipe(name).name
        assert recipe.__doc__
        assert "Command: polyplink train" in recipe.__doc__


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(PolyplinkError, match="did you mean ntssl-demo"):
        find_recipe("ntsl-demo")
    with pytest.raises(PolyplinkError, match="choose one of: ntssl, ntssl-demo"):
        find_recipe("simclr")
