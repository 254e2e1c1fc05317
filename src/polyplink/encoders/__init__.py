"""Encoders: crops of a tracklet to one vector, and weights with their record."""

from polyplink.encoders.config import EncoderConfig
from polyplink.encoders.device import pick_device, place, precision
from polyplink.encoders.embed import Embedder, NetworkEmbedder, colour_histogram, embed
from polyplink.encoders.embeddings import Embeddings, read_embeddings, write_embeddings
from polyplink.encoders.frames import build_frame_encoder
from polyplink.encoders.state import check_state, write_tensors
from polyplink.encoders.tracklet import Projector, Tokens, TrackletEncoder
from polyplink.encoders.weights import (
    WEIGHTS_FILE,
    LoadedEncoder,
    Seen,
    WeightsRecord,
    load_encoder,
    read_record,
    save_weights,
    weights_path,
)

__all__ = [
    "WEIGHTS_FILE",
    "Embedder",
    "Embeddings",
    "EncoderConfig",
    "LoadedEncoder",
    "NetworkEmbedder",
    "Projector",
    "Seen",
    "Tokens",
    "TrackletEncoder",
    "WeightsRecord",
    "build_frame_encoder",
    "check_state",
    "colour_histogram",
    "embed",
    "load_encoder",
    "pick_device",
    "place",
    "precision",
    "read_embeddings",
    "read_record",
    "save_weights",
    "weights_path",
    "write_embeddings",
    "write_tensors",
]
