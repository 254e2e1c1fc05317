"""An encoder as an ONNX file that reads crops, for inference on CPUs.

The graph is the part that sees one frame at a time, normalisation included: that is where the
time goes. What gathers the frames of a tracklet is small, and travels beside the graph in the
file's metadata with the record of the weights: an exported file needs no other file.
"""

import base64
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import nn

from polyplink.core.artefacts import whole_file
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.encoder import FrameWise
from polyplink.encoders.weights import RECORD, WeightsRecord, record_text

OPSET = 20
INPUT, OUTPUT = "crops", "features"
HEAD = "polyplink-head"  # metadata: what follows the graph, safetensors in base 64
_BACKBONE = "backbone."


@contextmanager
def export_suffices() -> Iterator[None]:
    """Tell in one line that the extra is not installed."""
    try:
        yield
    except ImportError as error:
        raise PolyplinkError(
            f"exported encoders need a package that is not here ({first_line(error)})",
            "pip install 'polyplink[export]'",
        ) from None


class _Frames(nn.Module):
    """The part of an encoder that sees one frame at a time."""

    def __init__(self, encoder: FrameWise) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to features (n, d)."""
        return self.encoder.encode_frames(crops)


def _graph(encoder: FrameWise, side: int) -> Any:
    """The ONNX model of the frame part, for any number of crops of one side."""
    example = torch.zeros((2, side, side, 3), dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        program = torch.onnx.export(
            _Frames(encoder.eval()),
            (example,),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def head_of(encoder: FrameWise) -> str:
    """All tensors but the backbone's, as text."""
    state = {k: v.contiguous() for k, v in encoder.state_dict().items()}
    head = {k: v for k, v in state.items() if not k.startswith(_BACKBONE)}
    return base64.b64encode(save(head)).decode("ascii")


def export_frames(
    encoder: FrameWise, path: Path, side: int, record: WeightsRecord | None = None
) -> Path:
    """Write an encoder as an ONNX file, whole or not at all.

    Args:
        encoder: Where frames are encoded one by one, on the CPU.
        path: The file, or what is to be replaced.
        side: Width and height of the crops it will read, pixels.
        record: The record of its weights, without which `load_exported` will not read the file.

    Returns:
        The path.

    Raises:
        PolyplinkError: If the extra is not installed.
    """
    with export_suffices():
        import onnx  # noqa: PLC0415  an extra

        model = _graph(encoder, side)
    if record is not None:
        told = {RECORD: record_text(record), HEAD: head_of(encoder)}
        onnx.helper.set_model_props(model, told)
    with whole_file(path) as temporary:
        onnx.save(model, str(temporary))
    return path


def quantise(path: Path, out: Path, crops: np.ndarray, *, source: Path | None = None) -> Path:
    """Turn an exported file into one that multiplies 8-bit numbers.

    Weights are scaled for every channel, activations by what the given crops show. Convolutions
    alone become narrow.

    Args:
        path: From `export_frames`.
        out: The file to write.
        crops: Typical crops (n, h, w, 3) uint8, some dozens.
        source: What a refusal names in place of `path`: the weights it came from.

    Returns:
        `out`.

    Raises:
        PolyplinkError: If most of the encoder is no convolution, or the extra is not installed.
    """
    with export_suffices():
        import onnx  # noqa: PLC0415  an extra
        from onnxruntime.quantization import (  # noqa: PLC0415  an extra
            QuantFormat,
            QuantType,
            quantize_static,
        )
        from onnxruntime.quantization.shape_inference import (  # noqa: PLC0415
            quant_pre_process,
        )
    model = onnx.load(str(path))
    _check_convolutions(source or path, [node.op_type for node in model.graph.node])
    with whole_file(out) as temporary, tempfile.TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        quant_pre_process(str(path), str(folded), skip_symbolic_shape=True)
        quantize_static(
            str(folded),
            str(temporary),
            _reader(crops),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,  # sums of pairs of products do not fit into 16 bits on AVX2 else
            op_types_to_quantize=["Conv", "Add"],
        )
    return out


def _reader(crops: np.ndarray) -> Any:
    """Crops as onnxruntime reads them to find the scale of activations."""
    from onnxruntime.quantization import CalibrationDataReader  # noqa: PLC0415  an extra

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(np.array_split(crops, max(len(crops) // 8, 1)))

        def get_next(self) -> dict[str, np.ndarray] | None:
            part = next(self.rest, None)
            return None if part is None else {INPUT: np.ascontiguousarray(part)}

    return Reader()


def _check_convolutions(path: Path, kinds: list[str]) -> None:
    products = kinds.count("MatMul") + kinds.count("Gemm")
    PolyplinkError.unless(
        kinds.count("Conv") > products,
        f"{path} is no network of convolutions, and only those become 8-bit",
        "export it without --int8",
    )
