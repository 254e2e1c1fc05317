"""Encoders: crops of a tracklet to one vector, and weights with their record."""

from polyplink.encoders.build import build_encoder, build_projector
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.encoders.device import memory_suffices, pick_device, place, precision
from polyplink.encoders.embed import Embedder, NetworkEmbedder, colour_histogram, embed
from polyplink.encoders.embeddings import Embeddings, read_embeddings, write_embeddings
from polyplink.encoders.encoder import ClipWise, Encoder, FrameWise, Tokens
from polyplink.encoders.finetune import FineTune, merge_adapters, trainable
from polyplink.encoders.frames import build_frame_encoder
from polyplink.encoders.lookup import WEIGHTS_FILE, weights_path
from polyplink.encoders.mve import MveEncoder
from polyplink.encoders.sfe import SfeEncoder
from polyplink.encoders.start import build_started, inherited
from polyplink.encoders.state import check_state, write_tensors
from polyplink.encoders.tracklet import Projector, TrackletEncoder
from polyplink.encoders.weights import (
    LoadedEncoder,
    Seen,
    WeightsRecord,
    load_encoder,
    read_record,
    save_weights,
)

__all__ = [
    "WEIGHTS_FILE",
    "AnyEncoderConfig",
    "ClipWise",
    "Embedder",
    "Embeddings",
    "Encoder",
    "EncoderConfig",
    "FineTune",
    "FoundationConfig",
    "FrameWise",
    "LoadedEncoder",
    "MveConfig",
    "MveEncoder",
    "NetworkEmbedder",
    "Projector",
    "Seen",
    "SfeConfig",
    "SfeEncoder",
    "Tokens",
    "TrackletEncoder",
    "WeightsRecord",
    "build_encoder",
    "build_frame_encoder",
    "build_projector",
    "build_started",
    "check_state",
    "colour_histogram",
    "embed",
    "inherited",
    "load_encoder",
    "memory_suffices",
    "merge_adapters",
    "pick_device",
    "place",
    "precision",
    "read_embeddings",
    "read_record",
    "save_weights",
    "trainable",
    "weights_path",
    "write_embeddings",
    "write_tensors",
]
