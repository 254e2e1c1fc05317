"""The colour of a polyp's surface, texel by texel: its tissue on its patient's colours."""

import math

import torch
from torch import Tensor

from polyplink.simulate.colon.polyp import Traits

# How much a groove, a pale patch, a vessel and mucus change red, green and blue.
GROOVE = (0.45, 1.0, 0.95)
PALE = (0.22, 0.75, 0.75)
VESSEL = (0.30, 0.62, 0.52)
MUCUS = (0.86, 0.56, 0.27)


def paint_map(traits: Traits, maps: Tensor, tissue: Tensor) -> Tensor:
    """Colours of a polyp.

    Args:
        traits: What it is.
        maps: (5, m, m), see `polyp.surface_maps`.
        tissue: (3,) colour of this patient's polyps, linear RGB.

    Returns:
        (3, m, m) linear RGB.
    """
    look = traits.tissue
    _, pattern, patches, vessels, mucus = maps
    factor = [math.exp(look.value + 0.3 * look.hue)]
    factor += [math.exp(look.value - 0.7 * look.hue), math.exp(look.value - 0.9 * look.hue)]

    def each(values: tuple[float, float, float]) -> Tensor:
        return maps.new_tensor(values)[:, None, None]

    colour = (tissue * tissue.new_tensor(factor))[:, None, None]
    groove = look.contrast * each(GROOVE) * (0.5 - 0.5 * pattern)
    colour = colour * (1 - groove) * (1 + (traits.cap * each(PALE) * patches).clamp(-0.6, 1.2))
    colour = colour * (1 - look.vessels * each(VESSEL) * vessels * (0.6 + 0.4 * pattern))
    return torch.lerp(colour, each(MUCUS).expand_as(colour), 0.5 * look.mucus * mucus)
