"""Libraries that only some verbs need, by the extra of the package that installs them."""

from collections.abc import Iterator
from contextlib import contextmanager

from polyplink.core.errors import PolyplinkError

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


@contextmanager
def extras_installed(purpose: str = "this") -> Iterator[None]:
    """Turn the ImportError of a library of an extra into a message; other errors pass.

    Args:
        purpose: What needs the library, for the message.

    Raises:
        PolyplinkError: If a library of an extra is not installed; names the library and the
            command that installs it.

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
