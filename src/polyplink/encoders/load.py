"""Encoders from weights, by name, file or folder: to use them, or to train on from them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from polyplink.core.artefacts import KEY_DIGITS, content_key, file_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import short_repr
from polyplink.data.origin import BoxesOrigin, read_origin
from polyplink.encoders.adapt import unwrapped_tensors, wrap_encoder
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import AnyEncoderConfig, EncoderConfig, MveConfig, SfeConfig
from polyplink.encoders.device import default_precision, memory_suffices, pick_device, place
from polyplink.encoders.embed import Embedder, NetworkEmbedder, colour_histogram
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.export import ExportedEncoder
from polyplink.encoders.weights import (
    WeightsRecord,
    check_seal,
    check_state,
    read_record,
    read_tensors,
    weights_id,
    weights_path,
)
from polyplink.models.shipped import is_shipped, shipped_model
from polyplink.tracklets.settings import PrepareSettings, with_options


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder with everything that is needed to use it.

    Attributes:
        name: Name in tables and figures.
        key: Identifies the weights; part of the names of cached vectors.
        embedder: Turns packed crops into vectors.
        device: Device of the computation.
        prepare: Crop rule and sampling of its input.
        weights_record: The record of its weights; None for baselines, see `record`.
        precision: float32, tf32, bf16 or int8.
    """

    __repr__ = short_repr

    name: str
    key: str
    embedder: Embedder
    device: torch.device
    prepare: PrepareSettings
    weights_record: WeightsRecord | None = None
    precision: str = "float32"

    @property
    def record(self) -> WeightsRecord:
        """The record of its weights, which all encoders have but baselines."""
        assert self.weights_record is not None, self.name
        return self.weights_record


def load_named(
    weights: Path,
    device: str = "auto",
    name: str | None = None,
    *,
    precision: str | None = None,
    tracklets: Mapping[str, Any] | None = None,
    origin: BoxesOrigin | None = None,
) -> NamedEncoder:
    """Load a weights file, the folder of a training run, added weights, or an exported encoder.

    Args:
        weights: File, folder or name.
        device: "auto", "cpu", "cuda" or "cuda:N"; exported encoders compute on the CPU.
        name: Name of the encoder; by default the name in its record.
        precision: "float32", "tf32", "bf16" or "int8"; by default bf16 on a GPU, float32 on the
            CPU, and for an exported encoder the precision of the export.
        tracklets: Changes to the settings in the record, see `with_options`.
        origin: The detector of the boxes, which may state its own thresholds.

    Raises:
        PolyplinkError: If the weights are missing or broken, the device does not exist, or it does
            not support the precision.
    """
    path = weights_path(weights)
    if path.suffix == ".onnx":  # an exported encoder
        if device not in ("auto", "cpu"):
            raise PolyplinkError(
                f"{weights} is an exported encoder, which computes on the CPU",
                "give the weights it was exported from, or --device cpu",
            )
        torch_device = torch.device("cpu")
        exported = ExportedEncoder(path, precision)
        used = exported.precision
        usual = "int8" if used == "int8" else "float32"  # of the numbers in the graphs
        network: Embedder = exported
        record, key = exported.record, exported.weights_id
    else:
        torch_device = pick_device(device)
        usual = default_precision(torch_device)
        used = precision or usual
        on_cpu = torch_device.type == "cpu"
        if used == "tf32" and on_cpu:  # which computes float32 then
            used = "float32"
        if used == "int8":
            raise PolyplinkError(
                f"{weights} has no 8-bit weights", "write them with `polyplink export --int8 DATA`"
            )
        graphs = _graphs(weights) if on_cpu and used == "float32" else None
        if graphs is not None:
            exported = ExportedEncoder(graphs)
            network, record, key = exported, exported.record, weights_id(path)
        else:
            loaded = load_encoder(weights, torch_device)
            network = NetworkEmbedder(loaded.encoder, compute=used, frozen=True)
            record, key = loaded.record, loaded.weights_id
    name = name or record.name or weights.stem
    if used != usual:  # other vectors from the same weights, cached under another key
        key = f"{key}-{used}"
    settings = with_options(record.prepare, tracklets or {}, origin)
    return NamedEncoder(name, key, network, torch_device, settings, record, used)


def _graphs(weights: Path) -> Path | None:
    """The ONNX graphs of a shipped encoder: the same vectors in half the time, without timm."""
    if not is_shipped(weights, "encoder") or find_spec("onnxruntime") is None:
        return None
    return shipped_model(weights.name).graphs


def load_several(
    weights: Sequence[Path], device: str, tracklets: Mapping[str, Any], data: Path
) -> list[NamedEncoder]:
    """Load encoders with different names; those of the same recipe get their file in the name.

    Args:
        weights: Files, folders or names.
        device: See `load_named`.
        tracklets: See `load_named`.
        data: The data folder, whose detector may state its own thresholds.

    Raises:
        PolyplinkError: If a file is given twice, and see `load_named`.
    """
    if len(set(weights)) != len(weights):
        raise PolyplinkError("weights are given twice", "give others to compare")
    origin = read_origin(data)
    loaded = [load_named(path, device, tracklets=tracklets, origin=origin) for path in weights]
    count = Counter(encoder.name for encoder in loaded)
    return [
        encoder if count[encoder.name] == 1 else replace(encoder, name=f"{encoder.name} ({path})")
        for encoder, path in zip(loaded, weights, strict=True)
    ]


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder in evaluation mode, its record, and the id of its file."""

    __repr__ = short_repr

    encoder: Encoder
    record: WeightsRecord
    weights_id: str


def load_encoder(weights: Path, device: torch.device) -> LoadedEncoder:
    """Load an encoder and its record; the tensors must fit exactly.

    Raises:
        PolyplinkError: If the file does not exist, or its tensors do not fit its record.
    """
    path = weights_path(weights)
    record = read_record(path)
    with memory_suffices(device):
        state = read_tensors(path)
        # A broken record must not build a network that is far larger than its tensors.
        sides = [side for tensor in state.values() for side in tensor.shape]
        largest = max([len(state), *sides])
        for name in ("width", "layers", "heads", "feedforward", "frame_hidden"):
            value = getattr(record.encoder, name, 1)
            if value > largest:
                raise PolyplinkError(
                    f"the record of {path} is broken: encoder.{name} is {value}, but no tensor is "
                    "so large",
                    "train or copy again",
                )
        encoder = build_encoder(record.encoder)
        expected = encoder.state_dict()
        for name in expected:
            if name.endswith("tint_slopes"):  # whitened encoders of earlier versions have none
                state.setdefault(name, torch.zeros_like(expected[name]))
        check_state(path, state, expected)
        encoder.load_state_dict(state)
        placed = place(encoder, device).eval()
    digest = file_key(path)
    check_seal(path, digest)
    return LoadedEncoder(placed, record, digest[:KEY_DIGITS])


def build_started(config: AnyEncoderConfig, init_from: Path | None = None) -> Encoder:
    """Build an encoder for training, without tone and whitening, optionally from other weights.

    Weights of the same encoder initialise all tensors. Weights of a single-frame encoder (SFE)
    initialise the backbone of a tracklet encoder, and for a multi-view encoder (MVE) also the frame
    head, as in its paper (Intrator et al. 2023); the transformer starts from random values.

    Args:
        config: The encoder; its `frame_weights` are ignored if `init_from` is given.
        init_from: Weights file, run folder or name.

    Raises:
        PolyplinkError: If the weights do not exist or are of another encoder, or the encoder cannot
            have tone or whitening.
    """
    if getattr(config, "tone", 0.0) or getattr(config, "whiten", False):  # fitted after training
        encoder = build_started(replace(config, tone=0.0, whiten=False), init_from)
        wrap_encoder(encoder, config)  # refuses now what would be refused after the training
        return encoder
    if init_from is None:
        return build_encoder(config)
    path = weights_path(init_from)
    check_seal(path)
    source = read_record(path).encoder
    state = unwrapped_tensors(read_tensors(path), source)

    # The tensors that the encoder takes over.
    encoder = build_encoder(replace(config, frame_weights=None))
    expected = encoder.state_dict()
    if isinstance(source, SfeConfig) and isinstance(config, EncoderConfig):
        state = {name: value for name, value in state.items() if name.startswith("backbone.")}
        expected = {name: value for name, value in expected.items() if name.startswith("backbone.")}
    elif isinstance(source, SfeConfig) and isinstance(config, MveConfig):
        if source.vector != "projected":
            raise PolyplinkError(
                f"{path} holds a single-frame encoder without its head",
                "train it with --set encoder.vector=projected, which keeps the head",
            )
        state = {re.sub("^head", "frame_head", name): value for name, value in state.items()}
        expected = {k: v for k, v in expected.items() if k.startswith(("backbone.", "frame_head."))}
    check_state(path, state, expected)
    encoder.load_state_dict(encoder.state_dict() | state)
    return encoder


def random_encoder(
    config: AnyEncoderConfig, device: torch.device, seed: int = 0
) -> NetworkEmbedder:
    """An encoder with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = build_started(config)
    return NetworkEmbedder(place(encoder, device))


def baselines(encoder: NamedEncoder) -> list[NamedEncoder]:
    """Untrained baselines: the same network with random weights, and a colour histogram."""
    config, device = encoder.record.encoder, encoder.device
    network = random_encoder(config, device)
    key = f"untrained-{content_key(config)}"
    return [
        NamedEncoder("untrained encoder", key, network, device, encoder.prepare),
        histogram("colour histogram", device, encoder.prepare),
    ]


def histogram(name: str, device: torch.device, settings: PrepareSettings) -> NamedEncoder:
    """The colour histogram as an encoder."""
    return NamedEncoder(name, "histogram-8x8x8", colour_histogram, device, settings)
