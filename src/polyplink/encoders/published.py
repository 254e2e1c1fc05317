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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
)
from polyplink.encoders.foundation import FOUNDATION, Origin, Spec
from polyplink.encoders.store import check_state, read_tensors
from polyplink.encoders.weights import build_encoder
from polyplink.tracklets import PrepareSettings

State = Mapping[str, torch.Tensor]
RESNET = "resnet50"

_WRAPPINGS = ("teacher", "encoder", "model", "state_dict")  # DINO, V-JEPA, MAE, Lightning
_PREFIXES = ("module.", "backbone.")  # DataParallel, self-supervised training
_HEADS = ("head.", "dino_head.", "ibot_head.")  # of the pre-training, not of the backbone
_SCALAR: Any = importlib.import_module("numpy._core.multiarray").scalar
_HARMLESS: list[Any] = [
    argparse.Namespace,
    (_SCALAR, "numpy.core.multiarray.scalar"),  # the name of NumPy 1
    (_SCALAR, "numpy._core.multiarray.scalar"),
    np.dtype,
    *(getattr(np.dtypes, name) for name in ("Float64DType", "Float32DType", "Int64DType")),
]


def read_published(path: Path, *, trust_pickle: bool = False) -> Mapping[str, Any]:
    """Load a safetensors file or a torch checkpoint.

    Args:
        path: The file.
        trust_pickle: Allow a pickle to run arbitrary code.

    Returns:
        Its contents on the CPU; tensors of a zip file are memory-mapped.

    Raises:
        PolyplinkError: If it is missing, broken or of another type, or would run code.
    """
    if not path.is_file():
        raise PolyplinkError(f"no file {path}", "check the path")
    with path.open("rb") as file:
        head = file.read(9)
    if head[8:] == b"{":
        return read_tensors(path, "copy or download it again")
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


_PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))  # mean, std: these programs feed [0, 1]


@dataclass(frozen=True)
class Reference:
    """A checkpoint written by a paper's program.

    Attributes:
        name: Its name in polyplink.
        title: What it is.
        encoder: The encoder that it fits.
        prepare: The crops that it was trained on.
        names: (pattern, replacement) pairs for tensor names; the first that matches applies.
        dropped: Prefixes of tensors outside the encoder: heads that only the loss uses.
        tensors: Number of tensors in the file, dropped ones included; None if unknown.
        mark: A tensor that only this kind of checkpoint has.
        origin: Where to get the file.
    """

    name: str
    title: str
    encoder: EncoderConfig | MveConfig
    prepare: PrepareSettings
    names: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    tensors: int | None
    mark: str
    origin: Origin

    def library_names(self, state: State) -> dict[str, torch.Tensor]:
        """Rename a checkpoint's tensors to those of the encoder; unknown names stay."""
        renamed = {}
        for old, tensor in state.items():
            if old.startswith(self.dropped):
                continue
            name = old
            for pattern, new in self.names:
                name, changed = re.subn(pattern, new, name)
                if changed:
                    break
            renamed[name] = tensor
        return renamed


_NO_LICENCE = "none stated: ask the authors"

HMVE = Reference(
    name="hmve",
    title="NTSSL's tracklet encoder (HMVE)",
    encoder=EncoderConfig(),
    prepare=PrepareSettings(),
    names=(
        (r"^mve\.sfe\.backbone\.", "backbone."),
        (r"^mve\.encoder\.layers\.", "transformer.layers."),
        (r"^mve\.", ""),
    ),
    dropped=("projector.",),
    tensors=361,
    mark="mve.cls_token",
    origin=Origin(
        source="Google Drive id 13Hif63XdPX1jsMuaW-NA-5gn_rqAZ9Oz",
        file="the Lightning checkpoint",
        licence=_NO_LICENCE,
    ),
)
TA = Reference(
    name="ta",
    title="the encoder of temporally aware counting",
    encoder=EncoderConfig(
        width=128,
        feedforward=2048,
        projector_hidden=128,
        mean=_PLAIN[0],
        std=_PLAIN[1],
    ),
    prepare=PrepareSettings(),
    names=(
        (r"^sfe\.backbone\.resnet\.", "backbone."),
        (r"^transformer_encoder\.", "transformer."),
    ),
    dropped=("sfe.head.", "head."),
    tensors=None,
    mark="sfe.backbone.resnet.conv1.weight",
    origin=Origin(source="not published", file="a checkpoint of your own", licence=_NO_LICENCE),
)
TPC = Reference(
    name="tpc",
    title="the multi-view encoder of Intrator et al. and TPC",
    encoder=MveConfig(mean=_PLAIN[0], std=_PLAIN[1]),
    prepare=PrepareSettings(crop_factor=1.0),
    names=(
        (r"^sfe\.backbone\.backbone\.", "backbone."),
        (r"^sfe\.(?:backbone\.)?head\.", "frame_head."),
        (r"^transformer_encoder\.", "transformer."),
        (r"^head\.0\.", "head."),
    ),
    dropped=(),
    tensors=None,
    mark="sfe.backbone.backbone.conv1.weight",
    origin=Origin(source="not published", file="a checkpoint of your own", licence=_NO_LICENCE),
)
REFERENCES: dict[str, Reference] = {one.name: one for one in (HMVE, TA, TPC)}


@dataclass(frozen=True)
class Recognised:
    """Published weights, ready for an encoder.

    Attributes:
        name: Their name in polyplink.
        title: Their published name.
        tensors: The complete state dict of the encoder.
        config: The encoder's configuration, presets filled in.
        prepare: The crops that it reads.
        origin: Where to get them.
    """

    name: str
    title: str
    tensors: State
    config: AnyEncoderConfig
    prepare: PrepareSettings
    origin: Origin


def recognise(state: State) -> Spec | Reference | None:
    """The published encoder that tensors belong to, or None if unknown."""
    for reference in REFERENCES.values():
        if reference.mark in state:
            return reference
    for family in {spec.build for spec in FOUNDATION.values()}:
        if (name := family.recognises(state)) is not None:
            return FOUNDATION[name]
    return None


def is_resnet(state: State) -> bool:
    """Whether tensors are torchvision's ResNet-50, which has the same names in timm."""
    last = state.get("layer4.2.conv3.weight")
    return last is not None and tuple(last.shape) == (2048, 512, 1, 1) and "conv1.weight" in state


def fit_published(path: Path, state: State, config: FoundationConfig | None = None) -> Recognised:
    """Recognise published tensors and fit them to their encoder: every tensor, no other.

    Args:
        path: The file, for messages.
        state: From `unwrap`.
        config: How a foundation encoder is to be used; its `model` is ignored.

    Raises:
        PolyplinkError: If they are of no known encoder, or a tensor is missing, unknown or of
            another shape.
    """
    known = recognise(state)
    if known is None:
        first = ", ".join(list(state)[:3]) or "no tensor at all"
        raise PolyplinkError(
            f"{path} holds weights of no encoder that is known here (it begins with {first})",
            f"known are {', '.join([*FOUNDATION, *REFERENCES, RESNET])}",
        )
    if isinstance(known, Reference):
        encoder: AnyEncoderConfig = known.encoder
        count, wanted, prepare = len(state), known.tensors, known.prepare
        tensors = known.library_names(state)
    else:
        values = vars(config or FoundationConfig()) | {"model": known.name, "frame_weights": None}
        encoder = settled = known.settle(FoundationConfig(**values))
        kept = {name: tensor for name, tensor in state.items() if not name.startswith(_HEADS)}
        renamed = known.build.library_names(known, settled, kept)
        count, wanted = len(renamed), None if settled.depth else known.tensors
        tensors = {f"backbone.{name}": tensor for name, tensor in renamed.items()}
        prepare = PrepareSettings(size=settled.size or known.size)
    PolyplinkError.unless(
        wanted is None or count == wanted,
        f"{path} holds {count} tensors, and {known.title} has {wanted}",
        "give the published file",
    )
    with torch.device("meta"):  # names and shapes alone
        check_state(path, tensors, build_encoder(encoder).state_dict())
    return Recognised(known.name, known.title, tensors, encoder, prepare, known.origin)
