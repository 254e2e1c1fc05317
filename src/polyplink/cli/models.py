"""The verb `models`: the models that ship with polyplink."""

from dataclasses import asdict
from typing import Annotated

from typer import Argument

from polyplink.cli.options import names_of
from polyplink.cli.verb import verb
from polyplink.core.results import Result
from polyplink.models.shipped import ShippedModel, models, shipped_model


def names() -> list[str]:
    """Names of the shipped models."""
    return [model.name for model in models()]


@verb
def show_models(
    name: Annotated[
        str | None,
        Argument(
            help="Name of one model; all by default.",
            autocompletion=names_of("polyplink.cli.models:names"),
        ),
    ] = None,
) -> Result[tuple[ShippedModel, ...]]:
    """Print the model cards of the shipped models, and check their files.

    Raises:
        PolyplinkError: If there is no such model, or one of its files is missing or has changed.
    """
    model_names = names() if name is None else [name]
    listed = tuple(shipped_model(model_name) for model_name in model_names)
    rows = [asdict(model) | {"path": str(model.path), "card": model.card} for model in listed]
    printed = [
        f"{model.card}\n{model.path}\n{model.bytes} bytes, SHA-256 {model.sha256}"
        for model in listed
    ]
    return Result(listed, rows, printed)
