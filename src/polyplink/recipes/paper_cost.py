"""Parameters and multiply-accumulates of encoders, counted as the papers do."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyplink.core.errors import find_named
from polyplink.encoders.catalogue import FOUNDATION, REFERENCES, find_spec
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.encoders.weights import added_weights, read_record, weights_path
from polyplink.models.shipped import is_shipped
from polyplink.recipes.by_name import RECIPES

if TYPE_CHECKING:
    from torch import nn


def cost_of(name: str, size: int | None = None, frames: int = 8) -> dict[str, Any]:
    """Parameters and multiply-accumulates of an encoder for one clip (NTSSL, table 1).

    Whitening has no parameters, and its multiply-accumulates are not counted.

    Args:
        name: A foundation encoder, an encoder of the papers, a recipe, or weights: a file, a folder
            or a name.
        size: Image size, pixels; by default that of the weights' crops, or 224, as in the paper.
        frames: Frames of the clip.

    Returns:
        Millions of parameters of the encoder (`params_m`), of the encoder with the modules that
        the paper includes (`published_params_m`: projectors of trained encoders, unused heads,
        V-JEPA's predictor) and of the projector (`projector_m`); billions of multiply-accumulates
        counted as in the paper (`macs_g`; `published_macs_g` with the predictor), and with
        attention but without norms (`all_macs_g`).

    Raises:
        PolyplinkError: If the name is unknown, or the encoder does not accept the size.
    """
    config, usual_size = _config(name)
    encoder, parameters = _built(name, config, pixels := size or usual_size)
    import torch  # noqa: PLC0415  slow: a wrong name is refused first

    from polyplink.encoders.cost import count_macs  # noqa: PLC0415

    with torch.device("meta"):
        crops = torch.empty(frames, pixels, pixels, 3, dtype=torch.uint8)
        macs, all_macs = count_macs(encoder, lambda: encoder(crops, [frames]))
    published = macs
    if name == "vjepa2-l":
        # NTSSL's program runs the predictor but does not use its output. The predictor reads values
        # of tensors and cannot run on the meta device. It is therefore run with few tokens; the
        # count is linear in their number.
        n_tokens, tokens = 4, max(frames // 2, 1) * (pixels // 16) ** 2
        predictor = _unused_modules(name)
        assert predictor is not None
        places = [torch.arange(n_tokens)[None]]
        sample = (torch.zeros(1, n_tokens, 1024), places, places)
        published += count_macs(predictor, lambda: predictor(*sample))[0] * tokens // n_tokens
    return {
        "name": name,
        "frames": frames,
        "size": pixels,
        **parameters,
        "macs_g": macs / 1e9,
        "published_macs_g": published / 1e9,
        "all_macs_g": all_macs / 1e9,
    }


def _config(name: str) -> tuple[AnyEncoderConfig, int]:
    """The configuration of an encoder, without files to load, and the size of its images."""
    encoders, path = known_encoders(), Path(name)
    has_file = path.exists() or is_shipped(path, "encoder") or added_weights(path) is not None
    if name in encoders or not has_file:
        return find_named("encoder, recipe or weights", name, encoders), 224
    record = read_record(weights_path(path))
    config = record.encoder
    if isinstance(config, SfeConfig | MveConfig | EncoderConfig | FoundationConfig):
        config = replace(config, frame_weights=None, whiten=False)
    return config, record.prepare.size


def _built(
    name: str, config: AnyEncoderConfig, pixels: int
) -> "tuple[nn.Module, dict[str, float]]":
    """An encoder for images of a size on the meta device, without memory, and its parameters."""
    if isinstance(config, FoundationConfig):
        config = find_spec(config.model).settle(replace(config, size=pixels))
    import torch  # noqa: PLC0415  slow: a wrong name is refused first

    from polyplink.encoders.build import build_encoder, build_projector  # noqa: PLC0415

    with torch.device("meta"):
        encoder = build_encoder(config).eval()
        projector, unused = build_projector(encoder), _unused_modules(name)
    trained = isinstance(config, SfeConfig | EncoderConfig)
    heads = (encoder, projector if trained else None, unused)

    def millions(*modules: "nn.Module | None") -> float:
        return sum(p.numel() for m in modules if m is not None for p in m.parameters()) / 1e6

    return encoder, {
        "params_m": millions(encoder),
        "published_params_m": millions(*heads),
        "projector_m": millions(projector),
    }


def known_encoders() -> "dict[str, AnyEncoderConfig]":
    """Encoders by the names that `cost_of` accepts: foundation encoders, papers' and recipes'."""
    encoders: dict[str, AnyEncoderConfig] = {
        name: FoundationConfig(model=name, preset="reference") for name in FOUNDATION
    }
    encoders |= {name: reference.encoder for name, reference in REFERENCES.items()}
    encoders |= {"sfe": SfeConfig()}
    for name, recipe in RECIPES.items():
        encoders[name] = replace(recipe().encoder, frame_weights=None)
    return encoders


def _unused_modules(name: str) -> "nn.Module | None":
    """Modules that NTSSL's program builds but does not use, included in the paper's parameters."""
    from torch import nn  # noqa: PLC0415

    from polyplink.encoders.spec import transformers  # noqa: PLC0415

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
