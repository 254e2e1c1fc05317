"""Embedding with an exported file: the frames by OpenVINO on all cores, the rest by torch."""

import base64
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import nn

from polyplink.core.artefacts import KEY_DIGITS, file_key
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.build import build_encoder
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encoder import FrameWise
from polyplink.encoders.export import HEAD, INPUT, export_suffices
from polyplink.encoders.state import check_state
from polyplink.encoders.weights import RECORD, LoadedEncoder, WeightsRecord, parse_record

SUFFIX = ".onnx"
_AGAIN = "export it again with `polyplink export`"


class ExportedEmbedder(NetworkEmbedder):
    """An encoder whose frames go through an exported file; what gathers them is torch.

    One block of frames a core at a time: a convolution split over cores waits for the slowest.
    Computed in 8 bits where the file is quantised; else in float32, or in bf16 on CPUs that
    multiply it (OpenVINO's choice).

    Args:
        encoder: What gathers frames; its backbone is not asked.
        path: From `export_frames` or `quantise`.
        frames_per_pass: Frames in a block.
    """

    def __init__(self, encoder: FrameWise, path: Path, *, frames_per_pass: int = 4) -> None:
        super().__init__(encoder, frames_per_pass=frames_per_pass)
        model = _compiled(path)
        most = model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._requests = deque(model.create_infer_request() for _ in range(most))

    def _features(self, encoder: FrameWise, crops: np.ndarray) -> torch.Tensor:
        # Requests in turn, not a queue with a callback: OpenVINO may still be about to let go of
        # the callback when Python waits for it to end, and then both wait for ever.
        running: deque[Any] = deque()
        found: list[np.ndarray] = []
        for block in self._blocks(crops):
            if len(running) == len(self._requests):
                found.append(_finished(running.popleft()))
            request = self._requests[0]
            self._requests.rotate(-1)
            request.start_async({INPUT: np.ascontiguousarray(block)})
            running.append(request)
        found.extend(_finished(request) for request in running)
        return torch.from_numpy(np.concatenate(found))  # n f


def _finished(request: Any) -> np.ndarray:
    """The features of a block, once they are there: a copy, as the next one takes their place."""
    request.wait()
    return np.array(request.get_output_tensor(0).data, dtype=np.float32)


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise PolyplinkError(f"no exported encoder {path}", "export it with `polyplink export`")


def _compiled(path: Path) -> Any:
    with export_suffices():
        import openvino  # noqa: PLC0415  an extra
    _check_there(path)
    try:
        return openvino.Core().compile_model(str(path), "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})
    except RuntimeError as error:
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", _AGAIN) from None


def _metadata(path: Path) -> dict[str, str]:
    with export_suffices():
        import onnx  # noqa: PLC0415  an extra

        # It comes with onnx.
        from google.protobuf.message import (  # type: ignore[import-untyped]  # noqa: PLC0415
            DecodeError,
        )
    _check_there(path)
    try:
        model = onnx.load(str(path))
    except DecodeError as error:
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", _AGAIN) from None
    props = {entry.key: entry.value for entry in model.metadata_props}
    PolyplinkError.unless({RECORD, HEAD} <= set(props), f"{path} has no polyplink record", _AGAIN)
    return props


def read_exported_record(path: Path) -> WeightsRecord:
    """The record that travels with an exported file: that of its weights.

    Raises:
        PolyplinkError: If it is no exported encoder.
    """
    return parse_record(_metadata(path)[RECORD], path)


def load_exported(path: Path) -> tuple[LoadedEncoder, ExportedEmbedder]:
    """An exported file as an encoder with its record, and as an embedder.

    The encoder has no backbone: only the embedder can look at crops.

    Raises:
        PolyplinkError: If it is no exported encoder.
    """
    props = _metadata(path)
    record = parse_record(props[RECORD], path)
    encoder = build_encoder(record.encoder)
    assert isinstance(encoder, FrameWise)  # no other is exported
    encoder.backbone = nn.Identity()
    try:
        head = load(base64.b64decode(props[HEAD]))
    except (SafetensorError, ValueError) as error:  # ValueError: no base 64
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", _AGAIN) from None
    check_state(path, head, encoder.state_dict())
    encoder.load_state_dict(head)
    loaded = LoadedEncoder(encoder.eval(), record, file_key(path)[:KEY_DIGITS])
    return loaded, ExportedEmbedder(encoder, path)
