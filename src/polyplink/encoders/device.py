"""Where tensors live and in which precision a device computes."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from polyplink.core.errors import PolyplinkError

Module = TypeVar("Module", bound=nn.Module)
_SMALLER = "take a smaller one, images of fewer pixels or shorter clips, or another --device"


def pick_device(name: str = "auto") -> torch.device:
    """A device by name: "auto" is the GPU where there is one, else the CPU.

    Raises:
        PolyplinkError: If torch knows no such device or it is not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise PolyplinkError(f"no device {name!r} here", "use auto, cpu, cuda or cuda:N")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise PolyplinkError(f"no device {name!r} here ({reason})", "use cpu or auto") from None
    return device


def place(module: Module, device: torch.device) -> Module:
    """Move a model to its device, convolutions in channels_last layout; the same model."""
    module.to(device=device)
    for tensor in module.parameters():  # those over time (rank 5) know no such layout
        if tensor.dim() == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    return module


def precision(device: torch.device) -> AbstractContextManager[Any]:
    """bf16 autocast on a GPU; plain float32 on the CPU, where it must repeat bit by bit."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


@contextmanager
def memory_suffices(device: torch.device, mend: str = _SMALLER) -> Iterator[None]:
    """Tell a lack of memory in one line.

    Args:
        device: Whose memory.
        mend: What to do about it.

    Raises:
        PolyplinkError: If torch cannot have the memory that it asks for.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        text = str(error)
        if isinstance(error, RuntimeError) and not (
            isinstance(error, torch.OutOfMemoryError)
            or "can't allocate memory" in text
            or "not enough memory" in text
        ):
            raise
        raise PolyplinkError(
            f"the memory of {device.type} does not suffice for this encoder",
            mend,
        ) from None
