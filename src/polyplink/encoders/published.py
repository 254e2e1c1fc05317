"""Published weights: read without running their code, recognised, and renamed for polyplink.

A .pth file is a pickle, and a pickle is a program. Only tensors and the few harmless types that
these files are known to hold are loaded; anything else is refused unless the user trusts the file.
"""

import argparse
import importlib
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.build import build_encoder
from polyplink.encoders.catalogue import BACKBONE, FOUNDATION, REFERENCES, Reference, recognise
from polyplink.encoders.config import AnyEncoderConfig, FoundationConfig
from polyplink.encoders.foundation import Published, Spec, State
from polyplink.encoders.weights import check_state, read_tensors
from polyplink.tracklets import PrepareSettings

_WRAPPINGS = ("teacher", "encoder", "model", "state_dict")  # DINO, V-JEPA, MAE, Lightning
_PREFIXES = ("module.", "backbone.")  # DataParallel, self-supervised training
_SCALAR: Any = importlib.import_module("numpy._core.multiarray").scalar
_HARMLESS: list[Any] = [
    argparse.Namespace,
    (_SCALAR, "numpy.core.multiarray.scalar"),  # the name of NumPy 1
    (_SCALAR, "numpy._core.multiarray.scalar"),
    np.dtype,
    *(getattr(np.dtypes, name) for name in ("Float64DType", "Float32DType", "Int64DType")),
]


def read_published(path: Path, *, trust_pickle: bool = False) -> dict[str, torch.Tensor]:
    """Load a safetensors file or a torch checkpoint.

    Args:
        path: The file.
        trust_pickle: Allow a pickle to run arbitrary code.

    Returns:
        Its tensors by name on the CPU, see `unwrap`; those of a zip file are memory-mapped.

    Raises:
        PolyplinkError: If it is missing, broken or of another type, or would run code.
    """
    if not path.is_file():
        raise PolyplinkError(f"no file {path}", "check the path")
    with path.open("rb") as file:
        head = file.read(9)
    if head[8:] == b"{":
        return unwrap(read_tensors(path, "copy or download it again"))
    if head[:2] not in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04"):
        raise PolyplinkError(
            f"{path} is neither safetensors nor a file of torch", "give a .safetensors or .pth file"
        )
    try:
        with torch.serialization.safe_globals(_HARMLESS):
            zipped = zipfile.is_zipfile(path)
            loaded = torch.load(path, "cpu", weights_only=not trust_pickle, mmap=zipped)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        found = re.search(r"GLOBAL (\S+)|(?:class|function) (\S+)", str(error))
        if found and isinstance(error, pickle.UnpicklingError):
            raise PolyplinkError(
                f"{path} wants to run code when it is read ({found[1] or found[2]})",
                "give --trust-pickle if you trust whoever made it",
            ) from None
        raise PolyplinkError(
            f"{path} is truncated or broken ({first_line(error)[:120]})",
            "copy or download it again",
        ) from None
    if not isinstance(loaded, Mapping):
        raise PolyplinkError(
            f"{path} holds a {type(loaded).__name__}, not tensors by name",
            "give the file with the state dict",
        )
    return unwrap(loaded)


def unwrap(loaded: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Find the tensors of a checkpoint by name.

    Of a distillation the teacher is taken, not the student; then model, state_dict or the file
    itself. Prefixes that training frameworks add to every name are removed.
    """
    for name in _WRAPPINGS:
        inner = loaded.get(name)
        if isinstance(inner, Mapping):
            loaded = inner
    tensors = {str(k): v for k, v in loaded.items() if isinstance(v, torch.Tensor)}
    for prefix in _PREFIXES:
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


class Fitted(NamedTuple):
    """Published weights, ready for an encoder.

    Attributes:
        known: Which they are.
        tensors: The complete state dict of the encoder, or of the backbone.
        encoder: The encoder's configuration, presets filled in; None for a backbone alone.
        prepare: The crops that it reads.
    """

    known: Published
    tensors: State
    encoder: AnyEncoderConfig | None
    prepare: PrepareSettings


def fit_published(path: Path, state: State, config: FoundationConfig | None = None) -> Fitted:
    """Recognise published tensors and fit them to their encoder: every tensor, no other.

    Args:
        path: The file, for messages.
        state: From `read_published`.
        config: How a foundation encoder is to be used; its `model` is ignored.

    Raises:
        PolyplinkError: If they are of no known encoder, or a tensor is missing, unknown or of
            another shape.
    """
    known = recognise(state)
    encoder: AnyEncoderConfig | None = None
    tensors, prepare = state, PrepareSettings()
    if known is None:
        first = ", ".join(list(state)[:3]) or "no tensor at all"
        raise PolyplinkError(
            f"{path} holds weights of no encoder that is known here (it begins with {first})",
            f"known are {', '.join([*FOUNDATION, *REFERENCES, BACKBONE.title])}",
        )
    if isinstance(known, Reference):
        encoder, prepare = known.encoder, known.prepare
        tensors = known.renamed(state)
    elif isinstance(known, Spec):
        values = vars(config or FoundationConfig()) | {"model": known.name, "frame_weights": None}
        encoder = settled = known.settle(FoundationConfig(**values))
        found = known.library_names(settled, state)
        tensors = {f"backbone.{name}": tensor for name, tensor in found.items()}
        prepare = PrepareSettings(size=settled.size or known.size)
    if encoder is not None:
        with torch.device("meta"):  # names and shapes alone
            check_state(path, tensors, build_encoder(encoder).state_dict())
    return Fitted(known, tensors, encoder, prepare)
