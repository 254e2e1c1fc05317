"""Weights with their record: what they are, how to feed them, what they have seen."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open

from polyplink.core.artefacts import KEY_DIGITS, file_key, to_plain
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import AnyEncoderConfig, FoundationConfig
from polyplink.encoders.device import memory_suffices, place
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.lookup import weights_path
from polyplink.encoders.state import check_state, write_tensors
from polyplink.encoders.store import check_seal
from polyplink.tracklets import PrepareSettings

RECORD = "polyplink"  # the one metadata entry of the file
_FORMAT = 1


@dataclass(frozen=True)
class Seen:
    """What an encoder was trained or validated on, by name.

    Attributes:
        data: Key of the data set.
        trained: (data set, procedure, patient) of every procedure trained on.
        validated: The same of every procedure validated on.
        datasets: Data sets of which it saw nobody knows which part, in others' pre-training.
    """

    data: str = ""
    trained: Sequence[tuple[str, str, str]] = ()
    validated: Sequence[tuple[str, str, str]] = ()
    datasets: Sequence[str] = ()


@dataclass(frozen=True)
class WeightsRecord:
    """What travels with weights, so that they cannot be used otherwise than they were made.

    Attributes:
        encoder: How to build the encoder; its `frame_weights` are None, being inside already.
        prepare: The crop rule and sampling that the encoder was trained with.
        recipe: Every field of the recipe it was trained by.
        seen: What it was trained or validated on.
        origin: Where it came from: epoch, validation loss, and what chose it.
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
    """An encoder ready to embed, its record, and the id of its file."""

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
    """A record as it is written into a file; `parse_record` reads it."""
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
    """The record that `record_text` wrote.

    Raises:
        PolyplinkError: If it is broken or of another format; `path` is what it was read from.
    """
    try:
        record = json.loads(text)
        if record.pop("format", None) != _FORMAT:
            raise PolyplinkError(f"{path} has another format of record", "update polyplink")
        values = {f.name: _validated(f.type, record[f.name]) for f in fields(WeightsRecord)}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PolyplinkError(
            f"the record of {path} is broken ({first_line(error)})", "train or copy again"
        ) from None
    return WeightsRecord(**values)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a safetensors file, on the CPU."""
    with safe_open(path, framework="pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def _validated(kind: Any, value: Any) -> Any:
    return TypeAdapter(kind).validate_python(value)


def load_encoder(given: Path, device: torch.device) -> LoadedEncoder:
    """Load an encoder and its record, strictly: every tensor, none besides.

    Raises:
        PolyplinkError: If there is no such file or the tensors are another encoder's.
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
