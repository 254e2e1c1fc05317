"""Any encoder from its configuration, and what the loss needs besides."""

from torch import nn

from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.foundation import build_foundation
from polyplink.encoders.mve import MveEncoder
from polyplink.encoders.sfe import SfeEncoder
from polyplink.encoders.tracklet import Projector, TrackletEncoder, two_layers


def build_encoder(config: AnyEncoderConfig) -> Encoder:
    """Build an encoder; its `frame_weights` are loaded where there are any.

    Raises:
        PolyplinkError: If a backbone is unknown, or its weights are missing or do not fit.
    """
    match config:
        case EncoderConfig():
            return TrackletEncoder(config)
        case SfeConfig():
            return SfeEncoder(config)
        case MveConfig():
            return MveEncoder(config)
        case FoundationConfig():
            return build_foundation(config)


def build_projector(encoder: Encoder) -> nn.Module:
    """What stands between an encoder's tokens and the loss; dropped afterwards.

    Nothing where the encoder has its head within (SFE "projected", MVE).
    """
    config = encoder.config
    match config:
        case EncoderConfig():
            return Projector(config)
        case MveConfig() | SfeConfig(vector="projected"):
            return nn.Identity()
        case SfeConfig() | FoundationConfig():
            return two_layers(encoder.width, config.projector_hidden, config.projector_out)
