"""Exported encoders: an ONNX file that embeds crops on a CPU with OpenVINO.

The graph is the part that encodes single frames, normalisation included: that is where the time
goes. The aggregation over the frames of a tracklet is small and stays in torch; its tensors are in
the metadata of the file, with the record of the weights and the precision to compute in, so that
an exported file needs no other.
"""

import base64
import tempfile
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from polyplink.core.artefacts import KEY_DIGITS, file_key, whole_file
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.build import LoadedEncoder, build_encoder
from polyplink.encoders.device import Precision, check_precision
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.encoder import FrameWise
from polyplink.encoders.weights import (
    RECORD,
    WeightsRecord,
    check_state,
    parse_record,
    record_text,
)

SUFFIX = ".onnx"
OPSET = 20
INPUT, OUTPUT = "crops", "features"
HEAD = "polyplink-head"  # metadata: the tensors outside the graph, safetensors in base 64
PRECISION = "polyplink-precision"  # metadata: what the file is computed in by default
_BACKBONE = "backbone."
_AGAIN = "export it again with `polyplink export`"


@contextmanager
def export_suffices() -> Iterator[None]:
    """Report a missing package of the extra in one line."""
    try:
        yield
    except ImportError as error:
        raise PolyplinkError(
            f"exported encoders need a package that is not here ({first_line(error)})",
            "pip install 'polyplink[export]'",
        ) from None


class _Frames(nn.Module):
    """The part of an encoder that encodes single frames."""

    def __init__(self, encoder: FrameWise) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to features (n, d)."""
        return self.encoder.encode_frames(crops)


def export_frames(
    encoder: FrameWise,
    path: Path,
    side: int,
    record: WeightsRecord | None = None,
    compute: Precision = "float32",
) -> Path:
    """Write an encoder as an ONNX file, whole or not at all.

    Args:
        encoder: The encoder, on the CPU.
        path: The file; an existing one is replaced.
        side: Width and height of the crops it will read, pixels.
        record: The record of its weights, without which `load_exported` will not read the file.
        compute: Precision the file is computed in unless its reader asks for another, "float32"
            or "bf16"; its numbers are stored as float32 in both cases.

    Returns:
        The path.

    Raises:
        PolyplinkError: If the extra is not installed.
    """
    check_precision(compute, ("float32", "bf16"))
    with export_suffices():
        import onnx  # noqa: PLC0415  an extra

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter warns about itself
            program = torch.onnx.export(
                _Frames(encoder.eval()),
                (torch.zeros((2, side, side, 3), dtype=torch.uint8),),
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("n")},),  # any number of crops
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    assert program is not None
    model = program.model_proto
    props: dict[str, str] = {PRECISION: compute}
    if record is not None:
        # All tensors except the backbone's, which is the graph.
        state = {k: v.contiguous() for k, v in encoder.state_dict().items()}
        head = save({k: v for k, v in state.items() if not k.startswith(_BACKBONE)})
        props |= {RECORD: record_text(record), HEAD: base64.b64encode(head).decode("ascii")}
    onnx.helper.set_model_props(model, props)
    with whole_file(path) as temporary:
        onnx.save(model, str(temporary))
    return path


def quantise(path: Path, out: Path, crops: np.ndarray, *, source: Path | None = None) -> Path:
    """Quantise an exported file to 8 bits: weights per channel, activations by calibration.

    Only convolutions are quantised; the rest is computed in float32.

    Args:
        path: From `export_frames`.
        out: The file to write.
        crops: Crops to calibrate with (n, h, w, 3) uint8, some dozens.
        source: The weights it was exported from, to name in messages.

    Returns:
        `out`.

    Raises:
        PolyplinkError: If the encoder is no convolutional network, or the extra is not installed.
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
    parts = np.array_split(crops, max(len(crops) // 8, 1))
    batches = ({INPUT: np.ascontiguousarray(part)} for part in parts)
    model = onnx.load(str(path))
    kinds = [node.op_type for node in model.graph.node]
    PolyplinkError.unless(
        kinds.count("Conv") > kinds.count("MatMul") + kinds.count("Gemm"),
        f"{source or path} is no network of convolutions, and only those become 8-bit",
        "export it without --int8",
    )
    with whole_file(out) as temporary, tempfile.TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        quant_pre_process(str(path), str(folded), skip_symbolic_shape=True)
        quantize_static(
            str(folded),
            str(temporary),
            SimpleNamespace(get_next=lambda: next(batches, None)),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,  # on AVX2 sums of two products overflow 16 bits otherwise
            op_types_to_quantize=["Conv", "Add"],
        )
        model = onnx.load(str(temporary))
        props = {entry.key: entry.value for entry in model.metadata_props}
        onnx.helper.set_model_props(model, props | {PRECISION: "int8"})
        onnx.save(model, str(temporary))
    return out


class ExportedEmbedder(NetworkEmbedder):
    """An embedder whose frames are encoded by an exported file, and aggregated by torch.

    Every core works on a block of frames of its own: a convolution split over cores waits for the
    slowest.

    Args:
        encoder: Aggregates the frames; its backbone is not used.
        path: From `export_frames` or `quantise`.
        frames_per_pass: Frames in a block.
        compute: Precision, "float32" or "bf16", or "int8" for a quantised file alone; None for
            the one that it was exported for.

    Attributes:
        exported_for: The precision that it was exported for.
        precision: The precision that it computes in.

    Raises:
        PolyplinkError: If the file is missing or broken, or the processor or the file does not
            support the precision.
    """

    def __init__(
        self,
        encoder: FrameWise,
        path: Path,
        *,
        frames_per_pass: int = 4,
        compute: str | None = None,
    ) -> None:
        # The aggregation is too small to be worth another precision.
        super().__init__(encoder, frames_per_pass=frames_per_pass, compute="float32")
        self.exported_for = _metadata(path).get(PRECISION, "float32")
        self.precision = compute or self.exported_for
        check_precision(self.precision)
        PolyplinkError.unless(
            self.exported_for != "int8" or self.precision == "int8",
            f"{path} holds 8-bit numbers and cannot be computed in {compute}",
            "export the weights again without --int8",
        )
        PolyplinkError.unless(
            self.exported_for == "int8" or self.precision != "int8",
            f"{path} does not hold 8-bit numbers",
            "export the weights again with --int8 DATA",
        )
        model = _compiled(path, self.precision)
        most = model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._requests = deque(model.create_infer_request() for _ in range(most))

    def _features(self, encoder: FrameWise, crops: np.ndarray) -> torch.Tensor:
        # A ring of requests, not OpenVINO's queue with a callback: releasing the callback can
        # deadlock with Python waiting for the queue.
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
    """Wait for the features of a block; a copy, as the next block reuses the memory."""
    request.wait()
    return np.array(request.get_output_tensor(0).data, dtype=np.float32)


def _metadata(path: Path) -> dict[str, str]:
    with export_suffices():
        import onnx  # noqa: PLC0415  an extra

        # It comes with onnx.
        from google.protobuf.message import (  # type: ignore[import-untyped]  # noqa: PLC0415
            DecodeError,
        )
    if not path.is_file():
        raise PolyplinkError(f"no exported encoder {path}", "export it with `polyplink export`")
    try:
        model = onnx.load(str(path))
    except DecodeError as error:
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", _AGAIN) from None
    return {entry.key: entry.value for entry in model.metadata_props}


def _compiled(path: Path, compute: str) -> Any:
    """The file compiled by OpenVINO.

    Without a hint OpenVINO computes float32 files in bf16 on processors that multiply it (AMX,
    AVX512-BF16), and dynamically quantises activations.
    """
    with export_suffices():
        import openvino  # noqa: PLC0415  an extra
    core = openvino.Core()
    PolyplinkError.unless(
        compute != "bf16" or "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"),
        f"this processor does not compute in bf16, which {path} asks for",
        "give --precision float32, or export the weights again with it",
    )
    hints = {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "EXECUTION_MODE_HINT": "PERFORMANCE" if compute == "bf16" else "ACCURACY",
        "INFERENCE_PRECISION_HINT": "bf16" if compute == "bf16" else "f32",
    }
    try:
        return core.compile_model(str(path), "CPU", hints)
    except RuntimeError as error:
        why = first_line(error)
        if compute == "bf16":  # named by the capabilities, and no kernel for some layer
            raise PolyplinkError(
                f"this processor does not compute {path} in bf16 ({why})",
                "give --precision float32, or export the weights again with it",
            ) from None
        raise PolyplinkError(f"{path} cannot be read ({why})", _AGAIN) from None


def load_exported(path: Path, compute: str | None = None) -> tuple[LoadedEncoder, ExportedEmbedder]:
    """Load an exported file as an encoder with its record, and as an embedder.

    The encoder has no backbone: only the embedder can encode crops.

    Args:
        path: From `export_frames` with a record, or `quantise`.
        compute: Precision, as in `ExportedEmbedder`.

    Raises:
        PolyplinkError: If it is no exported encoder, or it cannot be computed in `compute`.
    """
    props = _metadata(path)
    PolyplinkError.unless({RECORD, HEAD} <= set(props), f"{path} has no polyplink record", _AGAIN)
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
    return loaded, ExportedEmbedder(encoder, path, compute=compute)
