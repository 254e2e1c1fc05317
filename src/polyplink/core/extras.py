"""Libraries that only some verbs need: the extra that installs each, and how two are imported.

torchvision's published wheel is linked against CUDA. With a CPU build of torch its compiled
operators do not load, and `import torchvision` then fails while registering shapes for an operator
that does not exist, and so does `import timm`. Nothing here calls those operators, so declaring
their schemas is enough. If torchvision's own operators load, nothing is declared.

ONNX files are computed by onnxruntime on the CPU.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.on_demand import torch

EXTRAS = {
    "encoders": ("llvmlite", "numba", "sklearn", "timm", "torch", "torchvision"),
    "foundation": ("peft", "transformers"),
    "export": ("onnx", "onnxscript", "openvino"),
    "detect": ("onnxruntime",),
    "serve": ("anyio", "h11", "starlette", "uvicorn", "xlsxwriter"),
    "scale": ("lancedb", "pyarrow", "ray"),
    "train": ("lightning_fabric",),
    "log": ("tensorboard", "wandb"),
    "bench": ("torchmetrics", "trackeval"),
}
"""Modules by the extra that installs them."""


_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@contextmanager
def extras_installed(purpose: str = "this") -> Iterator[None]:
    """Report a library of an extra that is not installed; other errors pass.

    Args:
        purpose: What needs it, for the message.

    Raises:
        PolyplinkError: Naming the library and the command that installs it.

    Example:
        >>> with extras_installed("a spreadsheet"):
        ...     raise ModuleNotFoundError("No module named 'xlsxwriter'", name="xlsxwriter")
        Traceback (most recent call last):
        polyplink.core.errors.PolyplinkError: a spreadsheet needs xlsxwriter, which is not
        installed; pip install "polyplink[serve]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = next((name for name, modules in EXTRAS.items() if module in modules), None)
        if extra is None:
            raise
        raise PolyplinkError(
            f"{purpose} needs {module}, which is not installed", f'pip install "polyplink[{extra}]"'
        ) from None


@cache  # declared operators must stay alive, and may be declared only once
def heal_torchvision() -> "torch.library.Library | None":
    """Declare the schemas that `import torchvision` needs, only if its own do not load.

    Call it before importing torchvision or timm. `torchvision.ops.nms` and `torchvision.io`
    stay unavailable where the schemas had to be declared.

    Returns:
        The library that holds the declarations, or None where none were needed.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return None
    for compiled in sorted(Path(spec.submodule_search_locations[0]).glob("_C*.so")):
        with suppress(OSError, ImportError):
            torch.ops.load_library(str(compiled))  # type: ignore[no-untyped-call]
            return None
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    return library


def import_onnxruntime(purpose: str) -> Any:
    """The module onnxruntime, which otherwise tells its makers of every session (from 1.29).

    Args:
        purpose: What needs it, for the message.

    Raises:
        PolyplinkError: If it is not installed.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # not on Windows, where the system collects
    with extras_installed(purpose):
        import onnxruntime  # noqa: PLC0415 - an extra
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def open_session(path: Path, purpose: str, mend: str, threads: int = 1) -> Any:
    """A session of onnxruntime.

    Args:
        path: The ONNX file.
        purpose: What needs it, for the message where onnxruntime is not installed.
        mend: What to do if the file is broken.
        threads: Threads of a run; 0 for one per core.

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
        str([(one.name, one.shape, one.type) for one in ports])  # a name may be no UTF-8
    except Exception as error:  # onnxruntime has no exception class of its own
        raise PolyplinkError(f"{path} cannot be read as ONNX ({first_line(error)})", mend) from None
    return session
