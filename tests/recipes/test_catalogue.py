"""Recipes by name."""

import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.learn import TrainConfig
from polyplink.recipes import RECIPES, find_recipe, override


def test_every_recipe_goes_by_its_own_name() -> None:
    assert {"ntssl", "ntssl-demo", "sfe", "mve", "tpc", "supervised"} <= set(RECIPES)
    for name, recipe in RECIPES.items():
        assert recipe().name == name == find_recipe(name).name
        assert recipe.__doc__
        assert f"Command: polyplink train {name} DATA" in recipe.__doc__


@pytest.mark.parametrize("name", RECIPES)
def test_a_record_of_a_recipe_is_the_recipe(name: str) -> None:
    recipe = find_recipe(name)
    assert TypeAdapter(TrainConfig).validate_python(to_plain(recipe)) == recipe
    assert override(recipe, [f"optim.epochs={recipe.optim.epochs}"]) == recipe


def test_the_how_to_lists_every_recipe() -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/recipes.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.M)
    assert listed == list(RECIPES)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(PolyplinkError, match="did you mean ntssl-demo"):
        find_recipe("ntsl-demo")
    with pytest.raises(PolyplinkError, match="choose one of: ntssl, ntssl-text"):
        find_recipe("simclr")
