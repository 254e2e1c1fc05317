"""The verb `models`, and what a count says of the models that it was made with."""

from dataclasses import asdict, dataclass
from typing import Annotated

from typer import Argument

from polyplink.cli.options import Request, names_of
from polyplink.cli.verb import Result, inform
from polyplink.core.progress import Progress
from polyplink.models import ShippedModel, models, shipped_model

MODELS = names_of("polyplink.cli.shipped", "names")


def names() -> list[str]:
    """Names of the shipped models."""
    return [model.name for model in models()]


@dataclass(frozen=True)
class ModelsRequest(Request):
    """Which shipped model to describe."""

    name: Annotated[
        str | None, Argument(help="Name of one model; all by default.", autocompletion=MODELS)
    ] = None


def show_models(
    request: ModelsRequest, progress: Progress = inform
) -> Result[tuple[ShippedModel, ...]]:
    """Print the model cards of the shipped models, and check their files.

    Raises:
        PolyplinkError: If there is no such model, or a file of it is missing or has changed.
    """
    wanted_names = names() if request.name is None else [request.name]
    listed = tuple(shipped_model(name) for name in wanted_names)
    rows = [asdict(model) | {"path": str(model.path), "card": model.card} for model in listed]
    shown = [
        f"{model.card}\n{model.path}\n{model.bytes} bytes, SHA-256 {model.sha256}"
        for model in listed
    ]
    return Result(listed, rows, shown)
