"""Weights as others published them: read without running their code, and unwrapped.

A .pth file is a pickle, and a pickle is a program. Only tensors and the few harmless kinds of
values that these files are known to hold are let through; anything else is refused, unless the
user trusts the file.
"""

import argparse
import importlib
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from polyplink.core.errors import PolyplinkError, first_line

_WRAPPINGS = ("teacher", "encoder", "model", "state_dict")  # of DINO, V-JEPA, MAE, Lightning
_PREFIXES = ("module.", "backbone.")  # of several processes, of self-supervised training
_SCALAR: Any = importlib.import_module("numpy._core.multiarray").scalar
_HARMLESS: list[Any] = [
    argparse.Namespace,
    (_SCALAR, "numpy.core.multiarray.scalar"),  # the name of NumPy 1
    (_SCALAR, "numpy._core.multiarray.scalar"),
    np.dtype,
    *(getattr(np.dtypes, name) for name in ("Float64DType", "Float32DType", "Int64DType")),
]


def read_published(path: Path, *, trust_pickle: bool = False) -> Mapping[str, Any]:
    """Read a safetensors file or a file of torch.

    Args:
        path: The file.
        trust_pickle: Let a pickle run what it wants to.

    Returns:
        What it holds, on the CPU; tensors of a zip file stay on disk until they are used.

    Raises:
        PolyplinkError: If it is missing, broken or of another kind, or wants to run code.
    """
    if not path.is_file():
        raise PolyplinkError(f"no file {path}", "check the path")
    with path.open("rb") as file:
        head = file.read(9)
    if head[8:] == b"{":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise _broken(path, error) from None
    if head[:2] not in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04"):
        raise PolyplinkError(
            f"{path} is neither safetensors nor a file of torch", "give a .safetensors or .pth file"
        )
    return _unpickled(path, trust_pickle)


def _unpickled(path: Path, trust_pickle: bool) -> Mapping[str, Any]:
    try:
        with torch.serialization.safe_globals(_HARMLESS):
            loaded = torch.load(
                path,
                map_location="cpu",
                weights_only=not trust_pickle,
                mmap=zipfile.is_zipfile(path),
            )
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)|(?:class|function) (\S+)", str(error))
        name = next((part for part in found.groups() if part), "") if found else ""
        if not name:
            raise _broken(path, error) from None
        raise PolyplinkError(
            f"{path} wants to run code when it is read ({name})",
            "give --trust-pickle if you trust whoever made it",
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise _broken(path, error) from None
    if not isinstance(loaded, Mapping):
        raise PolyplinkError(
            f"{path} holds a {type(loaded).__name__}, not tensors by name",
            "give the file with the state dict",
        )
    return loaded


def _broken(path: Path, error: BaseException) -> PolyplinkError:
    return PolyplinkError(
        f"{path} is truncated or broken ({first_line(error)[:120]})", "copy or download it again"
    )


def unwrap(loaded: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint by name, without what it is wrapped in.

    The teacher of a distillation is taken, not the student; then model, state_dict or the file
    itself. Prefixes that training added to every name are cut off.
    """
    for name in _WRAPPINGS:
        inner = loaded.get(name)
        if isinstance(inner, Mapping):
            loaded = inner
    tensors = {str(k): v for k, v in loaded.items() if isinstance(v, torch.Tensor)}
    for prefix in _PREFIXES:
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors
