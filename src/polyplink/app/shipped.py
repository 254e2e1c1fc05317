"""The verb `models`, and what a count says of the models that it was made with."""

from dataclasses import asdict, dataclass
from typing import Annotated

from typer import Argument

from polyplink.app.options import Request, names_of
from polyplink.app.request import Result, inform
from polyplink.core.progress import Progress
from polyplink.models import ShippedModel, models, shipped_model

MODELS = names_of("polyplink.app.shipped", "names")


def names() -> list[str]:
    """Names of the shipped models."""
    return [one.name for one in models()]


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
    asked = names() if request.name is None else [request.name]
    found = tuple(shipped_model(name) for name in asked)
    rows = [asdict(one) | {"path": str(one.path), "card": one.card} for one in found]
    shown = [f"{one.card}\n{one.path}\n{one.bytes} bytes, SHA-256 {one.sha256}" for one in found]
    return Result(found, rows, shown)
