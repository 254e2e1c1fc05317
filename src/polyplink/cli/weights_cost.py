"""The verb `weights cost`: parameters and operations of an encoder."""

from typing import Annotated, Any

from typer import Argument, Option

from polyplink.cli.verb import verb
from polyplink.core.results import Result


@verb
def cost_weights(
    name: Annotated[
        str, Argument(help="An encoder, a recipe, or weights: a file, a folder or a name.")
    ],
    *,
    size: Annotated[int | None, Option(min=1, help="Image size, pixels.")] = None,
    frames: Annotated[int, Option(min=1, help="Frames of the clip.")] = 8,
) -> Result[dict[str, Any]]:
    """Count parameters and multiply-accumulates of an encoder.

    Args:
        size: Width and height of the frames, pixels; the encoder's by default.

    Raises:
        PolyplinkError: If there is no such encoder, the weights are broken, or the encoder refuses
            the size.
    """
    from polyplink.recipes.paper_cost import cost_of

    cost = cost_of(name, size, frames)
    text = (
        "{name} at {frames} x {size} x {size}: {params_m:.2f} M parameters "
        "({published_params_m:.2f} M as the paper counts; projector {projector_m:.2f} M), "
        "{published_macs_g:.2f} G multiply-accumulates as the paper counts, "
        "{all_macs_g:.2f} G with attention and without norms"
    )
    return Result(cost, printed=[text.format(**cost)])
