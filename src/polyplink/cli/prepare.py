"""The verb `prepare`: tracklets and their crops, which other verbs reuse."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import TrackletOptions, check_inputs
from polyplink.cli.verb import inform, verb
from polyplink.core.results import Progress, Result
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.tracklets.prepare import Prepared


@verb
def prepare_data(
    data: options.Data,
    *,
    recipe: Annotated[
        str,
        Option(help="Recipe with the settings to use.", autocompletion=options.complete_recipes),
    ] = "ntssl",
    sets: options.Sets = (),
    crops: Annotated[bool, Option(help="Cut crops, or build only tracklets.")] = True,
    part: Annotated[str | None, Option(help="Part to crop; all by default.")] = None,
    strict: Annotated[bool, Option(help="Stop at a frame that cannot be decoded.")] = False,
    device: Annotated[
        str, Option(help="cpu or cuda: where crops of simulated sets are rendered.")
    ] = "cpu",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Prepared]":
    """Build tracklets and cut their crops, once.

    Args:
        progress: Called for crops.

    Raises:
        PolyplinkError: If the recipe, the part, the data folder or an image is missing or broken.
    """
    data = Path(data)
    check_inputs(None, data, [part])
    from polyplink.data.origin import read_origin
    from polyplink.recipes.by_name import find_recipe, override
    from polyplink.tracklets.prepare import prepare
    from polyplink.tracklets.settings import with_options

    # Tracklets, with the thresholds of the boxes' detector, and crops.
    named = find_recipe(recipe)
    named = replace(named, prepare=with_options(named.prepare, {}, read_origin(data)))
    settings = with_options(override(named, sets).prepare, tracklets)
    prepared = prepare(
        data,
        settings,
        procedures=part,
        with_crops=crops,
        strict=strict,
        workers=workers,
        device=device,
        progress=partial(progress, "crops"),
    )

    # Their numbers, and frames that do not decode.
    broken = prepared.broken()
    counts: dict[str, Any] = {
        "out": str(prepared.folder),
        "procedures": len(prepared.procedures),
        "tracklets": prepared.tracklets.height,
        "crops": int(prepared.tracklets["n_crops"].sum()),
        "broken_frames": {name: len(frames) for name, frames in broken.items()},
    }
    warnings = [
        f"procedure {name}: {many(len(frames), 'frame')} cannot be decoded (first: "
        f"{frames[0].image}, {frames[0].why}); tracklets are cut there"
        for name, frames in broken.items()
    ]
    if not counts["tracklets"] and counts["procedures"]:
        warnings.append(options.NO_TRACKLETS)
    text = (
        f"{counts['out']}: {many(counts['tracklets'], 'tracklet')}, {many(counts['crops'], 'crop')}"
    )
    return Result(prepared, counts, [text], warnings)
