"""Weights with their record: what they are, how to feed them, what they have seen."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from polyplink.artefacts import KEY_DIGITS, file_key, to_plain, whole_file
from polyplink.encoders.config import EncoderConfig
from polyplink.encoders.state import check_state
from polyplink.encoders.tracklet import TrackletEncoder
from polyplink.errors import PolyplinkError
from polyplink.tracklets import PrepareSettings

WEIGHTS_FILE = "weights.safetensors"
_RECORD = "polyplink"  # the one metadata entry of the file
_FORMAT = 1


@dataclass(frozen=True)
class WeightsRecord:
    """What travels with weights, so that they cannot be used otherwise than they were made.

    Attributes:
        encoder: How to build the encoder; its `frame_weights` are None, being inside already.
        prepare: The crop rule and sampling that the encoder was trained with.
        recipe: Every field of the recipe it was trained by.
        seen: Procedure ids, patients and data key that it was trained or validated on.
        origin: Where it came from: epoch, validation loss, and what chose it.
        operating: Clustering settings and link calibration for counting, or None.
    """

    encoder: EncoderConfig
    prepare: PrepareSettings
    recipe: Mapping[str, Any]
    seen: Mapping[str, Any]
    origin: Mapping[str, Any]
    operating: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder ready to embed, its record, and the id of its file."""

    encoder: TrackletEncoder
    record: WeightsRecord
    weights_id: str


def save_weights(path: Path, encoder: TrackletEncoder, record: WeightsRecord) -> None:
    """Write the encoder and its record as one safetensors file, whole or not at all."""
    state = {k: v.detach().cpu().contiguous() for k, v in encoder.state_dict().items()}
    plain = to_plain(replace(record, encoder=replace(record.encoder, frame_weights=None)))
    text = json.dumps({"format": _FORMAT} | plain, sort_keys=True)
    with whole_file(path) as temporary:
        save_file(state, temporary, metadata={_RECORD: text})


def weights_path(given: Path) -> Path:
    """The weights file: `given` itself, or the one in the run folder `given`.

    Raises:
        PolyplinkError: If there is none.
    """
    path = given / WEIGHTS_FILE if given.is_dir() else given
    if not path.is_file():
        raise PolyplinkError(
            f"no weights at {path}", "give a .safetensors file or a folder `polyplink train` made"
        )
    return path


def read_record(path: Path) -> WeightsRecord:
    """Read the record of a weights file without its tensors.

    Raises:
        PolyplinkError: If the file is not safetensors or holds no polyplink record.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise PolyplinkError(
            f"{path} is not safetensors ({error})", "train or copy again"
        ) from None
    if _RECORD not in metadata:
        raise PolyplinkError(
            f"{path} holds no polyplink record", "give weights that `polyplink train` wrote"
        )
    record = json.loads(metadata[_RECORD])
    if record.pop("format", None) != _FORMAT:
        raise PolyplinkError(f"{path} has another format of record", "update polyplink")
    try:
        values = {f.name: _validated(f.type, record[f.name]) for f in fields(WeightsRecord)}
    except (KeyError, ValidationError) as error:
        raise PolyplinkError(
            f"the record of {path} is broken ({error})", "train or copy again"
        ) from None
    return WeightsRecord(**values)


def _validated(kind: Any, value: Any) -> Any:
    return TypeAdapter(kind).validate_python(value)


def load_encoder(given: Path, device: torch.device) -> LoadedEncoder:
    """Load an encoder and its record, strictly: every tensor, none besides.

    Raises:
        PolyplinkError: If there is no such file or the tensors are another encoder's.
    """
    path = weights_path(given)
    record = read_record(path)
    encoder = TrackletEncoder(record.encoder)
    with safe_open(path, framework="pt") as file:
        state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    check_state(path, state, encoder.state_dict())
    encoder.load_state_dict(state)
    encoder.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return LoadedEncoder(encoder.eval(), record, file_key(path)[:KEY_DIGITS])
