"""An encoder's backbone as an ONNX file that reads crops, for inference on CPUs.

What decides how pixels are read travels in the file: normalisation is part of the graph, and the
crop rule and the weights' id are its metadata. The small transformer over a tracklet stays torch:
its cost is nothing beside the backbone's.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from polyplink.artefacts import to_plain, whole_file
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encoder import FrameWise
from polyplink.errors import PolyplinkError, first_line

OPSET = 18
INPUT, OUTPUT = "crops", "features"
_RECORD = "polyplink"  # the one entry of metadata


class _Frames(nn.Module):
    """The part of an encoder that sees one frame at a time."""

    def __init__(self, encoder: FrameWise) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to features (n, d)."""
        return self.encoder.encode_frames(crops)


def export_frames(
    encoder: FrameWise, path: Path, side: int, record: Mapping[str, Any] | None = None
) -> Path:
    """Write the frame part of an encoder as an ONNX file, whole or not at all.

    Args:
        encoder: Where frames are encoded one by one.
        path: The file, or what is to be replaced.
        side: Width and height of the crops it will read, pixels.
        record: What shall travel with it: the crop rule, the weights' id.

    Returns:
        The path.
    """
    import onnx  # noqa: PLC0415  an extra

    example = torch.zeros((2, side, side, 3), dtype=torch.uint8)
    with whole_file(path) as temporary:
        torch.onnx.export(
            _Frames(encoder.eval()),
            (example,),
            str(temporary),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_axes={INPUT: {0: "n"}, OUTPUT: {0: "n"}},
            opset_version=OPSET,
            dynamo=False,
        )
        model = onnx.load(str(temporary))
        onnx.helper.set_model_props(model, {_RECORD: json.dumps(to_plain(dict(record or {})))})
        onnx.save(model, str(temporary))
    return path


def quantise(path: Path, out: Path, crops: np.ndarray) -> Path:
    """Turn an exported file into one that multiplies 8-bit numbers.

    Weights are scaled for every channel, activations by what the given crops show.

    Args:
        path: From `export_frames`.
        out: The file to write.
        crops: Typical crops (n, h, w, 3) uint8, some dozens.

    Returns:
        `out`.
    """
    from onnxruntime.quantization import (  # noqa: PLC0415  an extra
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(np.array_split(crops, max(len(crops) // 8, 1)))

        def get_next(self) -> dict[str, np.ndarray] | None:
            part = next(self.rest, None)
            return None if part is None else {INPUT: np.ascontiguousarray(part)}

    with whole_file(out) as temporary, tempfile.TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        quant_pre_process(str(path), str(folded), skip_symbolic_shape=True)
        quantize_static(
            str(folded),
            str(temporary),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,  # sums of pairs of products do not fit into 16 bits on AVX2 else
            op_types_to_quantize=["Conv", "Add"],
        )
    return out


class ExportedEmbedder(NetworkEmbedder):
    """An encoder whose frames go through an exported file; the rest is torch."""

    def __init__(self, encoder: FrameWise, path: Path, *, frames_per_pass: int = 16) -> None:
        super().__init__(encoder, frames_per_pass=frames_per_pass)
        self._model = _compiled(path)

    def encode_frames(self, crops: np.ndarray) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to features (n, d)."""
        features = self._model(np.ascontiguousarray(crops))[0]
        return torch.from_numpy(np.array(features, dtype=np.float32))

    @torch.inference_mode()
    def __call__(self, crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Crops uint8 (n, h, w, 3), packed, to vectors float32 (b, d)."""
        encoder = self.encoder
        assert isinstance(encoder, FrameWise)
        features = torch.cat([self.encode_frames(block) for block in self._blocks(crops)])  # n d
        vectors = np.empty((len(lengths), encoder.width), np.float32)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        for row, length in enumerate(lengths):
            part = features[starts[row] : starts[row + 1]]
            vectors[row] = encoder.aggregate(part, [length]).tracklet[0].numpy()
        return vectors


def _compiled(path: Path) -> Any:
    import openvino  # noqa: PLC0415  an extra

    if not path.is_file():
        raise PolyplinkError(f"no exported encoder {path}", "export it first")
    try:
        return openvino.Core().compile_model(str(path), "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})
    except RuntimeError as error:
        raise PolyplinkError(
            f"{path} cannot be read ({first_line(error)})", "export it again"
        ) from None


def read_exported_record(path: Path) -> dict[str, Any]:
    """What travels with an exported file.

    Raises:
        PolyplinkError: If it is no exported encoder.
    """
    import onnx  # noqa: PLC0415  an extra

    if not path.is_file():
        raise PolyplinkError(f"no exported encoder {path}", "export it first")
    props = {entry.key: entry.value for entry in onnx.load(str(path)).metadata_props}
    if _RECORD not in props:
        raise PolyplinkError(f"{path} has no record of polyplink", "export it again")
    found: dict[str, Any] = json.loads(props[_RECORD])
    return found
