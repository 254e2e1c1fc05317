"""What encoders cost, by name: the columns of NTSSL's first table."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from polyplink.core.errors import find_named
from polyplink.encoders import (
    AnyEncoderConfig,
    Encoder,
    FoundationConfig,
    SfeConfig,
    build_encoder,
    build_projector,
)
from polyplink.encoders.cost import all_macs, module_macs, parameters
from polyplink.encoders.foundation import FOUNDATION, transformers
from polyplink.encoders.published import REFERENCES
from polyplink.recipes import RECIPES


def known_encoders() -> dict[str, AnyEncoderConfig]:
    """Encoders by the names that `cost_of` takes: of others, of the papers, of the recipes."""
    known: dict[str, AnyEncoderConfig] = {
        name: FoundationConfig(model=name, preset="reference") for name in FOUNDATION
    }
    known |= {name: reference.encoder for name, reference in REFERENCES.items()}
    known |= {"sfe": SfeConfig()}
    for name, recipe in RECIPES.items():
        known[name] = replace(recipe().encoder, frame_weights=None)
    return known


def _unused(name: str) -> nn.Module | None:
    """What NTSSL's program builds beside an encoder and the paper's parameters count."""
    if name == "endovit":
        return nn.Linear(768, 1000)
    if name == "surgenet":
        return nn.Sequential(nn.Linear(512, 2048), nn.LayerNorm(2048), nn.Linear(2048, 1))
    if name == "vjepa2-l":
        library = transformers()
        model: Any = library.VJEPA2Model(library.VJEPA2Config(num_hidden_layers=1))
        predictor: nn.Module = model.predictor
        return predictor
    return None


def _predictor_macs(frames: int, size: int) -> int:
    """V-JEPA 2's predictor, which NTSSL's program runs and does not use.

    It asks tensors for values, so that it cannot run without memory: it is run on few tokens, in
    whose number this way of counting is linear.
    """
    few, tokens = 4, max(frames // 2, 1) * (size // 16) ** 2
    with torch.device("cpu"):
        predictor = _unused("vjepa2-l")
        assert predictor is not None
        places = [torch.arange(few)[None]]
        counted = module_macs(
            predictor, lambda: predictor(torch.zeros(1, few, 1024), places, places)
        )
    return counted * tokens // few


def cost_of(name: str, size: int | None = None, frames: int = 8) -> dict[str, Any]:
    """Parameters and multiply-accumulates of an encoder for one clip.

    Args:
        name: A foundation encoder, an encoder of the papers or a recipe.
        size: Image size, pixels; 224, at which the paper counted, by default.
        frames: Frames of the clip.

    Returns:
        Millions of parameters of the encoder (`params_m`) and of all that the paper counts with
        it (`published_params_m`: unused heads, V-JEPA's predictor); billions of
        multiply-accumulates counted as the paper does (`macs_g`; `published_macs_g` with the
        predictor), and with attention but without norms (`all_macs_g`); `projector_m`.

    Raises:
        PolyplinkError: If there is no such encoder, or it refuses the size.
    """
    config = find_named("encoder or recipe", name, known_encoders())
    pixels = size or 224
    if isinstance(config, FoundationConfig):
        config = replace(config, size=pixels)
    with torch.device("meta"):  # no memory, no arithmetic
        encoder: Encoder = build_encoder(config).eval()
        projector, unused = build_projector(encoder), _unused(name)
        crops = torch.empty(frames, pixels, pixels, 3, dtype=torch.uint8)
        own = module_macs(encoder, lambda: encoder(crops, [frames]))
        every = all_macs(lambda: encoder(crops, [frames]))
    published = own + (_predictor_macs(frames, pixels) if name == "vjepa2-l" else 0)
    beside = () if unused is None else (unused,)
    return {
        "name": name,
        "frames": frames,
        "size": pixels,
        "params_m": parameters(encoder) / 1e6,
        "published_params_m": parameters(encoder, *beside) / 1e6,
        "projector_m": parameters(projector) / 1e6,
        "macs_g": own / 1e9,
        "published_macs_g": published / 1e9,
        "all_macs_g": every / 1e9,
    }
