"""The verb `prepare`: build tracklets and cut their crops."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from polyplink.app.request import Data, Progress, Result, Sets, Workers, counter, silent

if TYPE_CHECKING:
    from polyplink.tracklets import Prepared


@dataclass(frozen=True)
class PrepareRequest:
    """What to prepare, and with which recipe."""

    data: Data
    recipe: Annotated[str, Option(help="Recipe whose settings to use.")] = "ntssl"
    sets: Sets = ()
    crops: Annotated[bool, Option(help="Cut crops, or build only tracklets.")] = True
    part: Annotated[str | None, Option(help="Part to crop; all by default.")] = None
    strict: Annotated[bool, Option("--strict", help="Stop at a frame that cannot be decoded.")] = (
        False
    )
    device: Annotated[
        str, Option(help="cpu or cuda: where crops of simulated sets are rendered.")
    ] = "cpu"
    workers: Workers = 2


def prepare_data(request: PrepareRequest, progress: Progress = silent) -> "Result[Prepared]":
    """Build tracklets and cut their crops, once.

    Raises:
        PolyplinkError: If the recipe, the part, the data folder or an image is at fault.
    """
    from polyplink.data import read_data
    from polyplink.recipes import find_recipe, override
    from polyplink.tracklets import prepare

    settings = override(find_recipe(request.recipe), request.sets).prepare
    part = request.part
    prepared = prepare(
        request.data,
        settings,
        procedures=None if part is None else read_data(request.data).part(part),
        with_crops=request.crops,
        strict=request.strict,
        workers=request.workers,
        device=request.device,
        progress=counter(progress, "crops"),
    )
    broken = prepared.broken()
    counts = {
        "out": str(prepared.folder),
        "procedures": len(prepared.procedures),
        "tracklets": prepared.tracklets.height,
        "crops": int(prepared.tracklets["n_crops"].sum()),
        "broken_frames": {name: len(frames) for name, frames in broken.items()},
    }
    warnings = [
        f"procedure {name}: {len(frames)} frames do not decode (first: {frames[0].image}, "
        f"{frames[0].why}); tracklets are cut there"
        for name, frames in broken.items()
    ]
    text = "{out}: {tracklets} tracklets, {crops} crops".format(**counts)
    return Result(prepared, counts, [text], warnings)
