"""ONNX files: written from modules of torch, and computed by onnxruntime on the CPU."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyplink.core.errors import PolyplinkError, extras_installed, first_line
from polyplink.core.lazy_torch import torch

if TYPE_CHECKING:
    from torch import nn

OPSET = 20


def import_onnxruntime(purpose: str) -> Any:
    """Import onnxruntime with its telemetry off (from 1.29 it reports every session).

    Args:
        purpose: What needs onnxruntime, for the error message.

    Raises:
        PolyplinkError: If onnxruntime is not installed.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # not on Windows, where the system collects
    with extras_installed(purpose):
        import onnxruntime  # noqa: PLC0415 - an extra
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def open_session(path: Path, purpose: str, hint: str, threads: int = 1) -> Any:
    """A session of onnxruntime.

    Args:
        path: The ONNX file.
        purpose: What needs onnxruntime, for the error message if it is not installed.
        hint: How to fix a broken file, for the error message.
        threads: Number of threads of a run; 0 for one per core.

    Raises:
        PolyplinkError: If onnxruntime is not installed, or the file is broken.
    """
    onnxruntime = import_onnxruntime(purpose)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        # Its fallback is the same provider again, and prints on stdout.
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        ports = (*session.get_inputs(), *session.get_outputs())
        str([(port.name, port.shape, port.type) for port in ports])  # a name may not be UTF-8
    except Exception as error:  # onnxruntime has no exception class of its own
        raise PolyplinkError(f"{path} cannot be read as ONNX ({first_line(error)})", hint) from None
    return session


def write_graph(
    path: Path,
    module: "nn.Module",
    inputs: Mapping[str, "torch.Tensor"],
    output: str,
    axes: Any,
    *,
    purpose: str,
) -> None:
    """Write a module of torch as an ONNX file.

    Args:
        path: The file.
        module: The module.
        inputs: An example of each input, by its name in the file.
        output: Name of the output in the file.
        axes: The axes of the inputs that may have another length, as `dynamic_shapes` of
            `torch.onnx.export`.
        purpose: What needs the export, for the error message.

    Raises:
        PolyplinkError: If the packages of the extra `export` are not installed.
    """
    with extras_installed(purpose), warnings.catch_warnings():
        import onnx  # noqa: PLC0415 - an extra

        warnings.simplefilter("ignore")  # the exporter warns about itself
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # one operator that ONNX does not have
        try:
            program = torch.onnx.export(
                module.eval(),
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=[output],
                dynamic_shapes=axes,
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
    assert program is not None
    model = program.model_proto
    graph = model.graph
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output):
        del part.metadata_props[:]  # stack traces with paths of this machine
    onnx.save(model, str(path))
