"""Devices, their precision and their memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

from polyplink.core.errors import PolyplinkError
from polyplink.core.lazy_torch import torch

Module = TypeVar("Module", bound="torch.nn.Module")
Precision = Literal["float32", "tf32", "bf16", "int8"]
EXPORTED: tuple[Precision, ...] = ("float32", "bf16", "int8")
COMPUTED: tuple[Precision, ...] = ("float32", "tf32", "bf16")
_SMALLER = "use a smaller one, images of fewer pixels or shorter clips, or another --device"


def check_device(name: str) -> None:
    """Check the form of a device name; `pick_device` checks that the device exists."""
    matched = re.fullmatch(r"auto|cpu|cuda(:\d+)?", name)
    if not matched:
        raise PolyplinkError(f"no device {name!r} here", "use --device auto, cpu, cuda or cuda:N")


def pick_device(name: str) -> torch.device:
    """A device by name: "auto" is the GPU if there is one, or else the CPU.

    Raises:
        PolyplinkError: If torch does not know the device, or it does not exist.
    """
    check_device(name)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise PolyplinkError(
            f"no device {name!r} here ({reason})", "use --device cpu or auto"
        ) from None
    return device


def place(module: Module, device: torch.device) -> Module:
    """Move a model to a device, in place, with convolutions in channels_last layout."""
    module.to(device=device)
    for tensor in module.parameters():  # convolutions over time (rank 5) have no such layout
        if tensor.dim() == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    return module


def default_precision(device: torch.device) -> Precision:
    """The default precision: bf16 on a GPU, float32 on a CPU.

    On a CPU, float32 makes results reproducible bit for bit.
    """
    return "bf16" if device.type == "cuda" else "float32"


def check_precision(name: str, allowed: tuple[Precision, ...] = EXPORTED) -> None:
    """Check that a precision is among the allowed ones."""
    if name not in allowed:
        raise PolyplinkError(f"no precision {name!r} here", f"give one of: {', '.join(allowed)}")


@contextmanager
def products(device: torch.device, name: str | None) -> Iterator[None]:
    """Set the precision of torch's float32 products, for backward passes too; see `precision`."""
    name = name or default_precision(device)
    check_precision(name, COMPUTED)
    matmul, tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    if name != "bf16":
        fast = name == "tf32" and device.type == "cuda"
        torch.set_float32_matmul_precision("high" if fast else "highest")
        torch.backends.cudnn.allow_tf32 = fast
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = tf32


@contextmanager
def precision(device: torch.device, name: str | None = None) -> Iterator[None]:
    """Make torch compute in a precision, independent of its global settings.

    float32 is strict: without autocast, TF32, or matrix products that a relaxed
    `torch.set_float32_matmul_precision` lets oneDNN compute in bf16. tf32 is float32 with products
    that a GPU rounds to 10 bits, as with `set_float32_matmul_precision("high")`; on a CPU it is
    float32. bf16 is autocast.

    Args:
        device: Device of the computation.
        name: "float32", "tf32" or "bf16"; None for `default_precision`.

    Raises:
        PolyplinkError: If the precision is none of these.
    """
    name = name or default_precision(device)
    with (
        products(device, name),
        torch.autocast(device.type, dtype=torch.bfloat16, enabled=name == "bf16"),
    ):
        yield


@contextmanager
def memory_suffices(device: torch.device, hint: str = _SMALLER) -> Iterator[None]:
    """Turn a failed allocation into a user error.

    Args:
        device: The device.
        hint: How to use less memory.

    Raises:
        PolyplinkError: If torch cannot allocate memory.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        full = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not (full or re.search("can't allocate memory|not enough memory", str(error))):
            raise
        problem = f"the memory of {device.type} is too small for this network"
        raise PolyplinkError(problem, hint) from None
