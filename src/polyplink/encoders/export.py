"""Exported encoders: a folder with two ONNX graphs, which any program can run with onnxruntime.

frames.onnx encodes single frames, including normalisation, and takes most of the time.
tracklets.onnx aggregates the features of tracklets' frames to vectors. config.json holds the
SHA-256 of the graphs, the precision, and the record of the weights with crop rule, tracks and
operating point. docs/how-to/export.md describes inputs and outputs, with a program in C++.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from polyplink.core.artefacts import atomic_file, atomic_folder
from polyplink.core.errors import PolyplinkError, extras_installed, first_line
from polyplink.core.onnx_files import import_onnxruntime, open_session, write_graph
from polyplink.core.text import many
from polyplink.encoders.device import Precision, check_precision
from polyplink.encoders.encoder import FrameWise
from polyplink.encoders.model_card import write_config
from polyplink.encoders.weights import (
    FRAMES,
    WeightsRecord,
    check_seal,
    read_config,
    read_record,
    weights_id,
)

TRACKLETS = "tracklets.onnx"
CROPS, FEATURES, LENGTHS, VECTORS = "crops", "features", "lengths", "vectors"
FRAMES_PER_PASS = 4  # in a block, which is computed by one thread
CLOSE = 1e-3  # largest relative difference between an exported graph and torch
_AGAIN = "export it again with `polyplink export`"
_PURPOSE = "an exported encoder"  # of packages that may be missing


class _Method(nn.Module):
    """A method of an encoder as a module, because torch exports modules."""

    def __init__(self, encoder: FrameWise, name: str) -> None:
        super().__init__()
        self.encoder, self.name = encoder, name

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = getattr(self.encoder, self.name)(*inputs)
        return output


def export_encoder(
    encoder: FrameWise,
    folder: Path,
    record: WeightsRecord,
    compute: Precision = "float32",
    calibration: np.ndarray | None = None,
) -> Path:
    """Write a frame-wise encoder as a folder, atomically.

    Args:
        encoder: The encoder, on the CPU.
        folder: The folder; it must not exist.
        record: The record of its weights; `prepare.size` is the side of its crops.
        compute: Default precision for frames: "float32", "bf16" (stored as float32), or "int8"
            (only convolutions, stored in 8 bits).
        calibration: Some dozens of crops (n, h, w, 3) uint8, for the scales of 8-bit activations.

    Returns:
        The folder.

    Raises:
        PolyplinkError: If the extra is not installed, the folder exists, "int8" is requested for
            an encoder that is not a convolutional network, or the vectors of the graphs differ from
            the encoder's.
    """
    check_precision(compute)
    side = record.prepare.size
    encoder.eval()
    with atomic_folder(folder) as new, torch.inference_mode(False), torch.no_grad():
        chance = torch.Generator().manual_seed(0)
        shape = (5, side, side, 3)
        crops = torch.randint(0, 256, shape, generator=chance, dtype=torch.uint8)
        features, lengths = encoder.encode_frames(crops), torch.tensor([2, 3])
        for name, method, inputs, output in (
            (FRAMES, "encode_frames", {CROPS: crops}, FEATURES),
            (TRACKLETS, "pool_packed", {FEATURES: features, LENGTHS: lengths}, VECTORS),
        ):
            # The first axis of every input, which are all in `*inputs` of `_Method.forward`.
            axes = (tuple({0: torch.export.Dim(input_name)} for input_name in inputs),)
            write_graph(
                new / name, _Method(encoder, method), inputs, output, axes, purpose=_PURPOSE
            )
        frame_features = _session(new / FRAMES)({CROPS: crops.numpy()})
        vectors = _session(new / TRACKLETS)({FEATURES: frame_features, LENGTHS: lengths.numpy()})
        expected = encoder.aggregate(features, [2, 3]).tracklet.numpy()
        deviation = np.abs(vectors - expected).max() / max(np.abs(expected).max(), 1e-9)
        if not deviation < CLOSE:  # also refuses NaN
            raise PolyplinkError(
                f"the vectors of {type(encoder).__name__} and of its graphs differ "
                f"(by {deviation:.2g})",
                "give it a method pool_packed that computes the same as its aggregate",
            )
        if compute == "int8":
            assert calibration is not None
            _quantise(new / FRAMES, calibration)
        sizes = {"crops": side, "features": features.shape[1], "vectors": vectors.shape[1]}
        write_config(new, record, {"precision": compute, **sizes})
    return folder


def with_record(folder: Path, out: Path, record: WeightsRecord) -> Path:
    """Copy an exported folder with another record; the id of its weights stays the same.

    Args:
        folder: The exported folder.
        out: Folder to write into; it may exist.
        record: The record, with another operating point.

    Returns:
        The frames.onnx in `out`.
    """
    config = read_config(folder)
    for name in (FRAMES, TRACKLETS):
        with atomic_file(out / name) as new:
            shutil.copyfile(folder / name, new)
    facts = {name: config[name] for name in ("precision", "crops", "features", "vectors")}
    write_config(out, record, facts, licence=config.get("licence"))
    return out / FRAMES


def _quantise(path: Path, crops: np.ndarray) -> None:
    """Quantise the convolutions of a graph in place; the rest is computed in float32.

    Weights have a scale per channel; the scales of activations are calibrated on crops.
    """
    import_onnxruntime(_PURPOSE)
    with extras_installed(_PURPOSE):
        import onnx  # noqa: PLC0415  an extra
        from onnxruntime import quantization  # noqa: PLC0415  an extra
        from onnxruntime.quantization import shape_inference  # noqa: PLC0415
    parts = np.array_split(crops, max(len(crops) // 8, 1))
    batches = ({CROPS: np.ascontiguousarray(part)} for part in parts)
    kinds = [node.op_type for node in onnx.load(str(path)).graph.node]
    if kinds.count("Conv") <= kinds.count("MatMul") + kinds.count("Gemm"):
        raise PolyplinkError(
            "the encoder is not a convolutional network, which export in 8 bits requires",
            "export it without --int8",
        )
    with tempfile.TemporaryDirectory() as folder:
        folded = Path(folder) / "folded.onnx"
        shape_inference.quant_pre_process(str(path), str(folded), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(folded),
            str(path),
            SimpleNamespace(get_next=lambda: next(batches, None)),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            reduce_range=True,  # otherwise sums of two products overflow 16 bits on AVX2
            op_types_to_quantize=["Conv", "Add"],
        )


Run = Callable[[dict[str, np.ndarray]], np.ndarray]  # inputs by name -> output; thread-safe


def _session(path: Path) -> Run:
    """A graph computed by onnxruntime in the calling thread.

    A session uses one thread, because several wait for each other: see docs/how-to/export.md.
    """
    session = open_session(path, _PURPOSE, _AGAIN)
    return lambda inputs: np.asarray(session.run(None, inputs)[0], np.float32)


def _bf16_session(path: Path) -> Run:
    """A graph computed in bf16 by OpenVINO; onnxruntime does not compute in bf16 on a CPU."""
    with extras_installed(_PURPOSE):
        import openvino  # noqa: PLC0415  an extra
    core = openvino.Core()
    hint = "give --precision float32, or export the weights again with it"
    if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise PolyplinkError(
            f"this processor does not compute in bf16, which {path} requires", hint
        )
    hints = {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_PRECISION_HINT": "bf16"}
    try:
        model = core.compile_model(str(path), "CPU", hints)
    except RuntimeError as error:  # listed as a capability, but some layer has no kernel
        raise PolyplinkError(
            f"this processor does not compute {path} in bf16 ({first_line(error)})", hint
        ) from None
    return lambda inputs: np.array(model.create_infer_request().infer(inputs)[0], np.float32)


class ExportedEncoder:
    """An exported folder as an `Embedder`, and in two steps for frames that arrive one by one.

    A graph runs in one thread. Blocks of frames are distributed over threads, so that each core
    computes a separate block: a convolution split over cores waits for the slowest. A batch of one
    block is computed in the calling thread.

    Args:
        path: The folder, or its frames.onnx.
        compute: Precision, "float32" or "bf16", or "int8" of an 8-bit export; None for the
            precision of the export.
        threads: Number of blocks computed at once; None for one per core.

    Attributes:
        record: The record of the weights.
        weights_id: Id of the two graphs.
        side: Width and height of the crops, pixels.
        width: Width d of the vectors.
        precision: The precision of the computation.

    Raises:
        PolyplinkError: If a file is missing, changed or broken, or the processor or the file does
            not support the precision.
    """

    def __init__(
        self, path: str | Path, compute: str | None = None, threads: int | None = None
    ) -> None:
        path = Path(path)
        folder = path.parent if path.suffix == ".onnx" else path
        self.record = read_record(folder / FRAMES)
        config = read_config(folder)
        for name in (FRAMES, TRACKLETS):
            if not (folder / name).is_file():
                raise PolyplinkError(f"{folder} has no {name}", _AGAIN)
            check_seal(folder / name)
        self.weights_id = weights_id(folder / FRAMES)
        self.side, self.width = int(config["crops"]), int(config["vectors"])
        exported_for = str(config["precision"])
        self.precision = compute or exported_for
        check_precision(self.precision)
        if "int8" in (self.precision, exported_for) and self.precision != exported_for:
            hint = "without --int8" if exported_for == "int8" else "with --int8 DATA"
            raise PolyplinkError(
                f"{folder} was exported for {exported_for} and cannot compute in {compute}",
                f"export the weights again {hint}",
            )
        start = _bf16_session if self.precision == "bf16" else _session
        self._frames, self._tracklets = start(folder / FRAMES), _session(folder / TRACKLETS)
        if self.precision == "bf16":
            # OpenVINO's binding initialises itself at the first inference. Two threads that do so
            # at once deadlock: one waits for the GIL, the other for the initialisation.
            self._frames({CROPS: np.zeros((1, self.side, self.side, 3), np.uint8)})
        self._threads = threads or os.cpu_count() or 1

    def frames(self, crops: np.ndarray) -> np.ndarray:
        """Crops uint8 (n, side, side, 3), RGB, to features float32 (n, f)."""
        edges = range(0, len(crops), FRAMES_PER_PASS)
        blocks = [np.ascontiguousarray(crops[at : at + FRAMES_PER_PASS]) for at in edges]
        if len(blocks) == 1 or self._threads == 1:
            return np.concatenate([self._frames({CROPS: block}) for block in blocks])
        with ThreadPoolExecutor(self._threads) as pool:
            return np.concatenate([*pool.map(lambda block: self._frames({CROPS: block}), blocks)])

    def tracklets(self, features: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Packed features (n, f) of tracklets of some lengths to vectors float32 (b, d)."""
        if len(lengths) == 0 or min(lengths) <= 0 or sum(lengths) != len(features):
            raise PolyplinkError(
                f"the lengths of {many(len(lengths), 'tracklet')} do not add up to {len(features)} "
                "features, or one is below 1",
                "give the number of features of each tracklet",
            )
        # One at a time: attention in the graph covers all tokens of its input.
        parts = np.split(features, np.cumsum(lengths)[:-1])
        pieces = (
            self._tracklets({FEATURES: part, LENGTHS: np.array([len(part)], np.int64)})
            for part in parts
        )
        return np.concatenate([*pieces])

    def __call__(self, crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Crops uint8 (n, side, side, 3), packed, to vectors float32 (b, d)."""
        return self.tracklets(self.frames(crops), lengths)
