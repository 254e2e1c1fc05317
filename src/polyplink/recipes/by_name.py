"""Look up recipes by name, and change their fields by name: `--set loss.temperature=0.1`."""

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from polyplink.core.artefacts import from_plain, to_plain
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.parts import REGISTRIES
from polyplink.core.ranges import Range
from polyplink.core.registry import import_file, object_of_file
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.earlier import EARLIER
from polyplink.recipes.ntssl import NTSSL
from polyplink.recipes.small import SMALL
from polyplink.recipes.supervised import SUPERVISED

RECIPES: dict[str, Callable[[], TrainConfig]] = {
    recipe.__name__.replace("_", "-"): recipe for recipe in (*NTSSL, *EARLIER, *SUPERVISED, *SMALL)
}

OTHER_PART = "ta384-"  # prefix of the names of recipes trained on that part
# Fields that differ in those recipes: the rows of temporally-aware counting come from the encoders
# of its authors, those of ntssl/1 from NTSSL's.
PREDECESSOR = {
    "sfe": ("encoder.vector=projected",),
    "mve": ("encoder.kind=mve",),
    "tpc": ("encoder.kind=mve",),
}


def find_recipe(name: str) -> TrainConfig:
    """A recipe by name, or from a user's file: "my_recipe.py" or "my_recipe.py:function".

    "ta384-NAME" is NAME as in temporally-aware counting: by its program, on the part ta384.

    Raises:
        PolyplinkError: If no recipe has the name (the message lists similar names or all), or the
            file has no recipe.
    """
    if (plain := name.removeprefix(OTHER_PART)) in RECIPES and plain != name:
        changes = (*PREDECESSOR.get(plain, ()), f"part={OTHER_PART.rstrip('-')}")
        return dataclasses.replace(override(RECIPES[plain](), changes), name=name)
    if (in_file := re.fullmatch(r"(.+\.py)(?::(.*))?", name)) is None:
        return find_named("recipe", name, RECIPES)()
    return _recipe_of_file(Path(in_file[1]), in_file[2] or "recipe")


USES = {  # of a part of a file, by its kind
    "encoder": "train RECIPE DATA --set encoder.kind={}",
    "bags": "train RECIPE DATA --set bags.kind={}",
    "loss": "train RECIPE DATA --set loss.kind={}",
    "clusterer": "evaluate WEIGHTS DATA --clusterer {}",
    "metric": "evaluate WEIGHTS DATA --metric {}",
}


def _kind_of(part: Any) -> str | None:
    """The kind of part in `USES` that an object of a file is; None if it is none."""
    fields = getattr(part, "__dataclass_fields__", {}) if isinstance(part, type) else {}
    for kind in USES:
        if REGISTRIES[kind].fits(part) and ("kind" in fields or kind in ("clusterer", "metric")):
            return kind
    return None


def _takes_nothing(function: Any) -> bool:
    """Whether a function can be called without an argument."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _recipe_of_file(path: Path, name: str) -> TrainConfig:
    """The recipe `name` of a file, or the recipe that its function `name` returns."""
    module = import_file(path, "recipe")
    recipe = getattr(module, name, None)
    if kind := _kind_of(recipe):
        part = f"{path}:{name}"
        hint = f"use it with `polyplink {USES[kind].format(part)}`"
        raise PolyplinkError(f"{part} is a part of kind {kind}, not a recipe", hint)
    recipe = recipe() if callable(recipe) and _takes_nothing(recipe) else recipe
    if not isinstance(recipe, TrainConfig):
        names = [key for key, value in vars(module).items() if isinstance(value, TrainConfig)]
        raise PolyplinkError(
            f"{path} has no recipe {name!r}",
            f"write {path}:{names[0]}"
            if names
            else f"define a function {name} that takes nothing and returns one",
        )
    for kind in ("encoder", "bags", "loss"):
        REGISTRIES[kind].check_settings(getattr(recipe, kind), f"{path}:{name}")
    return recipe


def field_names(value: Any, prefix: str = "") -> list[str]:
    """Dotted names of all fields of a dataclass that hold values, depth first."""
    names: list[str] = []
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        name = f"{prefix}{field.name}"
        names += field_names(inner, f"{name}.") if dataclasses.is_dataclass(inner) else [name]
    return names


def _parse(text: str, hint: Any) -> Any:
    """The value of a text for a field of a type: JSON, a bare word, or "none" for None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None if text.lower() == "none" else text
    takes_text = {str, Path} & {hint, *get_args(hint)}
    return text if takes_text and not isinstance(value, str | None) else value  # a part named 2


def _hint(value: Any, field: str) -> Any:
    """The type of a field of a dataclass, with its range."""
    return get_type_hints(type(value), include_extras=True)[field]


def type_text(recipe: TrainConfig, name: str) -> str:
    """A readable description of the values that a field takes, including those of plugins.

    Args:
        recipe: The recipe.
        name: Dotted name of the field.

    Example:
        >>> recipe = find_recipe("ntssl")
        >>> type_text(recipe, "loss.form"), type_text(recipe, "optim.epochs")
        ('symmetric | anchored', 'int, 1 or more')
    """
    *outer, field = name.split(".")
    if field == "kind" and outer:
        return " | ".join(REGISTRIES[outer[-1]].names())
    parents = list(accumulate(outer, getattr, initial=recipe))
    return _text(_hint(parents[-1], field))


def _text(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        ranges = [str(detail) for detail in inner[1:] if isinstance(detail, Range)]
        return ", ".join([_text(inner[0]), *ranges])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (Union, UnionType):
        return " | ".join(_text(choice) for choice in inner)
    if origin is tuple:
        return f"{'any number' if inner[-1] is ... else len(inner)} of {_text(inner[0])}"
    return "none" if hint is type(None) else str(getattr(hint, "__name__", hint)).lower()


def _settings_of_file(kind: str, text: str, plain: dict[str, Any]) -> Any:
    """A loss or bags of a class in a file, with the fields that it shares with the former part.

    Args:
        kind: The kind of part, which is the name of the recipe's field.
        text: FILE.py:NAME of the class.
        plain: The former part, from `to_plain`.
    """
    file, _, name = text.partition(".py:")
    part = object_of_file(Path(f"{file}.py"), name, kind)
    is_class = dataclasses.is_dataclass(part) and isinstance(part, type)
    names = {field.name for field in dataclasses.fields(part)} if is_class else set()
    if "kind" not in names:
        raise PolyplinkError(
            f"{text} is not a dataclass with a field `kind`",
            f"the how-to on adding parts describes the kind {kind}",
        )
    shared = {key: value for key, value in plain.items() if key in names - {"kind"}}
    settings: Any = from_plain(part, shared)
    REGISTRIES[kind].check_settings(settings, text)
    return settings


def _taken_over(part: Any) -> dict[str, Any]:
    """The fields of a part that a part of another kind takes over, as JSON-ready values.

    It does not take over None, nor a mean and std of pixels that the recipe did not choose: each
    kind of encoder has its own.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(part)}
    return {
        name: value
        for name, value in to_plain(part).items()
        if value is not None
        and not (name in ("mean", "std") and getattr(part, name) == defaults[name])
    }


def override(recipe: TrainConfig, assignments: Sequence[str]) -> TrainConfig:
    """A recipe with some fields changed.

    Args:
        recipe: The recipe.
        assignments: "dotted.name=value"; values as JSON, bare words as text, "none" for None. The
            value of a `kind` may be FILE.py:NAME, a class of the user's.

    Raises:
        PolyplinkError: If an assignment has no "=" or names no field (the message suggests the
            nearest name), its value does not fit the field, or a field of a part has no default.
    """
    for assignment in assignments:
        fields = field_names(recipe)  # an earlier assignment of a `kind` may have changed them
        name, equals, text = assignment.partition("=")
        if not equals:
            raise PolyplinkError(f"--set {assignment!r} has no value", "write NAME=VALUE")
        if name not in fields:
            near = get_close_matches(name, fields, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"the names are: {', '.join(fields)}"
            raise PolyplinkError(f"recipe {recipe.name} has no field {name!r}", hint)
        *outer, field = name.split(".")
        parents = list(accumulate(outer, getattr, initial=recipe))
        try:
            if field == "kind" and outer:  # the field holds another class from now on
                value: Any = _taken_over(parents.pop()) | {"kind": _parse(text, str)}
                field = outer.pop()
                if ".py:" in text:
                    value = _settings_of_file(field, text, value)
            else:
                value = _parse(text, _hint(parents[-1], field))
            value = TypeAdapter(_hint(parents[-1], field)).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            reason = first["msg"]
            if first["type"] == "missing":  # in a part that replaces another
                raise PolyplinkError(
                    f"{text} has no default for its field {first['loc'][-1]!r}",
                    "give every field a default, which --set can change",
                ) from None
            raise PolyplinkError(
                f"{name}={text} does not fit ({reason})",
                f"`polyplink recipes show {recipe.name}` lists values and types",
            ) from None
        for parent, key in zip(reversed(parents), (field, *reversed(outer)), strict=True):
            value = dataclasses.replace(parent, **{key: value})
        recipe = value
    return recipe
