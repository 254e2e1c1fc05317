"""A foundation encoder from its configuration."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.base import Foundation
from polyplink.encoders.foundation.catalogue import find_spec
from polyplink.encoders.lookup import weights_path
from polyplink.encoders.state import check_state


def build_foundation(config: FoundationConfig) -> Foundation:
    """Build an encoder; with `frame_weights` also load them, strictly.

    Raises:
        PolyplinkError: If its name, image size, clip or pooling is at fault, or the weights are
            missing or of another encoder.
    """
    spec = find_spec(config.model)
    encoder = spec.build(spec, config)
    if config.frame_weights is not None:
        _load(encoder, weights_path(config.frame_weights))
    return encoder


def _load(encoder: Foundation, path: Path) -> None:
    try:
        state = load_file(path)
    except SafetensorError as error:
        raise PolyplinkError(
            f"{path} is not safetensors ({first_line(error)})",
            "import published weights with `polyplink weights add FILE`",
        ) from None
    check_state(path, state, encoder.state_dict())
    encoder.load_state_dict(state)
