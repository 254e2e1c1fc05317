"""Recipes by name, and their fields by name: `--set loss.temperature=0.1`."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError, find_named
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


def field_names(value: Any, prefix: str = "") -> list[str]:
    """Dotted names of all fields of a dataclass that hold values, depth first."""
    names: list[str] = []
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        name = f"{prefix}{field.name}"
        names += field_names(inner, f"{name}.") if dataclasses.is_dataclass(inner) else [name]
    return names


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None if text.lower() == "none" else text


def override(recipe: TrainConfig, assignments: Sequence[str]) -> TrainConfig:
    """A recipe with some fields changed.

    Args:
        recipe: The recipe.
        assignments: "dotted.name=value"; values as JSON, bare words as text, "none" for None.

    Raises:
        PolyplinkError: If an assignment has no "=", names no field (the nearest is named), or
            its value does not fit the field.
    """
    for assignment in assignments:
        known = field_names(recipe)  # a `kind` set before may have brought other fields
        name, equals, text = assignment.partition("=")
        if not equals:
            raise PolyplinkError(f"--set {assignment!r} has no value", "write NAME=VALUE")
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            mend = f"did you mean {near[0]}?" if near else f"the names are: {', '.join(known)}"
            raise PolyplinkError(f"recipe {recipe.name} has no field {name!r}", mend)
        inner = plain = to_plain(recipe)
        *outer, field = name.split(".")
        for each in outer:
            inner = inner[each]
        inner[field] = _parse(text)
        try:
            recipe = TypeAdapter(TrainConfig).validate_python(plain)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise PolyplinkError(
                f"{name}={text} does not fit ({reason})", "give another value"
            ) from None
    return recipe
