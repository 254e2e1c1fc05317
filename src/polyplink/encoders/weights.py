"""Encoders from a configuration or from weights, and the record that weights carry.

`resume` continues a training run; `init_from` starts a new one from the weights of another.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open
from torch import nn

from polyplink.core.artefacts import KEY_DIGITS, file_key, to_plain
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.encoders.device import memory_suffices, place
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.foundation import find_spec
from polyplink.encoders.store import (
    check_seal,
    check_state,
    read_tensors,
    weights_path,
    write_tensors,
)
from polyplink.encoders.tracklet import MveEncoder, SfeEncoder, TrackletEncoder, two_layers
from polyplink.tracklets import PrepareSettings

RECORD = "polyplink"  # the metadata entry of the file that holds the record
_FORMAT = 1


def build_encoder(config: AnyEncoderConfig) -> Encoder:
    """Build an encoder and load its `frame_weights`, if any.

    Raises:
        PolyplinkError: If a backbone is unknown or cannot be built so, or its weights are missing
            or do not fit.

    Example:
        >>> config = EncoderConfig(frame_encoder="timm:test_resnet", width=16, heads=2)
        >>> build_encoder(config).width
        16
    """
    match config:
        case EncoderConfig():
            return TrackletEncoder(config)
        case SfeConfig():
            return SfeEncoder(config)
        case MveConfig():
            return MveEncoder(config)
        case FoundationConfig():
            spec = find_spec(config.model)
            encoder = spec.build(spec, config)
            if config.frame_weights is not None:
                path = weights_path(config.frame_weights)
                state = read_tensors(path, "import published weights with `polyplink weights add`")
                check_state(path, state, encoder.state_dict())
                encoder.load_state_dict(state)
            return encoder


def build_projector(encoder: Encoder) -> nn.Module:
    """Build the projector between an encoder's tokens and the loss; dropped after training.

    The identity where the encoder contains its head (SFE "projected", MVE).
    """
    config = encoder.config
    if isinstance(config, MveConfig) or getattr(config, "vector", "") == "projected":
        return nn.Identity()
    return two_layers(encoder.width, config.projector_hidden, config.projector_out)


@dataclass(frozen=True)
class Seen:
    """What an encoder was trained and validated on: the basis of the leakage check.

    Attributes:
        data: Key of the data set.
        trained: (data set, procedure, patient) of every procedure trained on.
        validated: The same for every procedure validated on.
        datasets: Data sets used in its pre-training by others; which procedures is unknown.
    """

    data: str = ""
    trained: Sequence[tuple[str, str, str]] = ()
    validated: Sequence[tuple[str, str, str]] = ()
    datasets: Sequence[str] = ()


@dataclass(frozen=True)
class WeightsRecord:
    """Everything needed to use weights as they were trained; part of the weights file.

    Attributes:
        encoder: Configuration of the encoder, without `frame_weights`: those are in the file.
        prepare: The crop rule and sampling that the encoder was trained with.
        recipe: All fields of the recipe it was trained by.
        seen: What it was trained and validated on.
        origin: Epoch, validation loss and selection criterion; for published weights the source.
        operating: Clustering settings and link calibration for counting, or None.
    """

    encoder: AnyEncoderConfig
    prepare: PrepareSettings
    recipe: Mapping[str, Any]
    seen: Seen
    origin: Mapping[str, Any]
    operating: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder in evaluation mode, its record, and the id of its file."""

    encoder: Encoder
    record: WeightsRecord
    weights_id: str


def save_weights(path: Path, encoder: Encoder, record: WeightsRecord) -> None:
    """Write the encoder and its record as one safetensors file, whole or not at all."""
    if isinstance(encoder.config, FoundationConfig):  # as built: presets are filled in
        record = replace(record, encoder=encoder.config)
    write_weights(path, encoder.state_dict(), record)


def write_weights(path: Path, tensors: Mapping[str, torch.Tensor], record: WeightsRecord) -> None:
    """Write an encoder's tensors and record, whole or not at all."""
    write_tensors(path, tensors, {RECORD: record_text(record)})


def record_text(record: WeightsRecord) -> str:
    """Serialise a record; `parse_record` reads it."""
    plain = to_plain(replace(record, encoder=replace(record.encoder, frame_weights=None)))
    return json.dumps({"format": _FORMAT} | plain, sort_keys=True)


def read_record(path: Path) -> WeightsRecord:
    """Read the record of a weights file without its tensors.

    Raises:
        PolyplinkError: If the file is not safetensors or holds no polyplink record.
    """
    PolyplinkError.unless(
        path.suffix != ".onnx",
        f"{path} is an exported encoder, which serves `polyplink embed` and `count` alone",
        "give the weights it was exported from",
    )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise PolyplinkError(
            f"{path} is not safetensors ({first_line(error)})", "train or copy again"
        ) from None
    if RECORD not in metadata:
        raise PolyplinkError(
            f"{path} holds no polyplink record", "give weights that `polyplink train` wrote"
        )
    return parse_record(metadata[RECORD], path)


def parse_record(text: str, path: Path) -> WeightsRecord:
    """Parse what `record_text` wrote.

    Raises:
        PolyplinkError: If it is broken or of another format; the message names `path`.
    """
    try:
        record = json.loads(text)
        if record.pop("format", None) != _FORMAT:
            raise PolyplinkError(f"{path} has another format of record", "update polyplink")
        values = {
            f.name: TypeAdapter(cast("Any", f.type)).validate_python(record[f.name])
            for f in fields(WeightsRecord)
        }
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PolyplinkError(
            f"the record of {path} is broken ({first_line(error)})", "train or copy again"
        ) from None
    return WeightsRecord(**values)


def load_encoder(given: Path, device: torch.device) -> LoadedEncoder:
    """Load an encoder and its record, strictly: every tensor, none besides.

    Raises:
        PolyplinkError: If there is no such file, or its tensors do not fit its record.
    """
    path = weights_path(given)
    record = read_record(path)
    with memory_suffices(device):
        encoder = build_encoder(record.encoder)
        state = read_tensors(path)
        check_state(path, state, encoder.state_dict())
        encoder.load_state_dict(state)
        placed = place(encoder, device).eval()
    digest = file_key(path)
    check_seal(path, digest)
    return LoadedEncoder(placed, record, digest[:KEY_DIGITS])


def build_started(config: AnyEncoderConfig, init_from: Path | None = None) -> Encoder:
    """Build an encoder, initialised from other weights if given.

    Weights of the same encoder initialise all tensors. Weights of a single-frame encoder (SFE)
    initialise the backbone of a tracklet encoder, and of a multi-view encoder (MVE) the frame head
    too, as in its paper (Intrator et al. 2023); the transformer starts from random values.

    Args:
        config: The encoder; its `frame_weights` are ignored if `init_from` is given.
        init_from: Weights file, run folder or name.

    Raises:
        PolyplinkError: If there are no such weights, or they are of another encoder.
    """
    if init_from is None:
        return build_encoder(config)
    path = weights_path(init_from)
    check_seal(path)
    source, state = read_record(path).encoder, read_tensors(path)
    encoder = build_encoder(replace(config, frame_weights=None))
    wanted = encoder.state_dict()
    if isinstance(source, SfeConfig) and isinstance(config, EncoderConfig):
        state = {name: value for name, value in state.items() if name.startswith("backbone.")}
        wanted = {name: value for name, value in wanted.items() if name.startswith("backbone.")}
    elif isinstance(source, SfeConfig) and isinstance(config, MveConfig):
        PolyplinkError.unless(
            source.vector == "projected",
            f"{path} holds a single-frame encoder without its head",
            "train it with --set encoder.vector=projected, which keeps the head",
        )
        state = {re.sub("^head", "frame_head", name): value for name, value in state.items()}
        wanted = {k: v for k, v in wanted.items() if k.startswith(("backbone.", "frame_head."))}
    check_state(path, state, wanted)
    encoder.load_state_dict(encoder.state_dict() | state)
    return encoder


def inherited(config: AnyEncoderConfig, init_from: Path | None) -> tuple[Seen, dict[str, str]]:
    """What an encoder has seen before training, and the id of the weights it starts from."""
    source = init_from
    if source is None and isinstance(config, FoundationConfig):
        source = config.frame_weights
    if source is None:
        return Seen(), {}
    path = weights_path(source)
    return read_record(path).seen, {"init_from": file_key(path)[:KEY_DIGITS]}
