"""Published layouts of encoders that the Hub holds: written by the library, read by ours."""

from pathlib import Path

import torch
from torch import nn

from polyplink.encoders import Encoder, FoundationConfig
from polyplink.encoders.foundation import find_spec
from polyplink.encoders.published import read_published, unwrap
from polyplink.encoders.recognise import fit_published
from tests.encoders.small import made

State = dict[str, torch.Tensor]


def jiggle(model: nn.Module) -> nn.Module:
    """Random values in every tensor: the library begins with zeros and ones in many."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn(value.shape, generator=generator) * 0.05)
    return model.eval()


def loaded(path: Path, config: FoundationConfig) -> Encoder:
    """A published file through the real path, into its encoder."""
    fitted = fit_published(path, unwrap(read_published(path)), config)
    assert fitted.name == config.model
    encoder = made(fitted.config)
    encoder.load_state_dict(dict(fitted.tensors))
    return encoder


def count_on_meta(name: str) -> int:
    """Tensors of the whole model, without its memory."""
    spec = find_spec(name)
    with torch.device("meta"):
        model = spec.build(spec, FoundationConfig(model=name))
    return len(model.state_dict())
