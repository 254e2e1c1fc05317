"""Published weights: read without running their code, recognised, and renamed for polyplink.

A .pth file is a pickle, which can run code. Only tensors and a few harmless types that occur in
such files are loaded; anything else is refused unless the user trusts the file.
"""

import argparse
import importlib
import pickle
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.files.folders import check_is_file
from polyplink.data.protocols import published_splits
from polyplink.encoders.build import (
    COUNTER,
    FAMILY,
    backbone_state,
    build_encoder,
    build_frame_encoder,
)
from polyplink.encoders.catalogue import (
    BACKBONE,
    FOUNDATION,
    HMVE,
    REFERENCES,
    Reference,
    recognise,
)
from polyplink.encoders.config import AnyEncoderConfig, FoundationConfig, SfeConfig
from polyplink.encoders.spec import REFERENCE_SIZE, Published, Spec, State
from polyplink.encoders.weights import SUFFIX, Seen, check_state, read_tensors
from polyplink.tracklets.settings import PrepareSettings

_WRAPPINGS = ("teacher", "encoder", "model", "state_dict")  # DINO, V-JEPA, MAE, Lightning
_PREFIXES = ("module.", "backbone.")  # DataParallel, self-supervised training
_HUB_NAME = re.compile(r"-([0-9a-f]{8})\.pth$")  # a file with its digest in the name
_OTHER_MODEL = "give the published file unchanged, or timm's name of its model with --timm"
_SCALAR: Any = importlib.import_module("numpy._core.multiarray").scalar
_HARMLESS: list[Any] = [
    argparse.Namespace,
    (_SCALAR, "numpy.core.multiarray.scalar"),  # the name of NumPy 1
    (_SCALAR, "numpy._core.multiarray.scalar"),
    np.dtype,
    *(getattr(np.dtypes, name) for name in ("Float64DType", "Float32DType", "Int64DType")),
]

# Exceptions of torch for truncated or broken files.
_BROKEN = (
    *(pickle.UnpicklingError, struct.error, EOFError, OSError, RuntimeError),
    *(AttributeError, LookupError, TypeError, ValueError, AssertionError, zipfile.BadZipFile),
)


def read_published(path: Path, *, trust_pickle: bool = False) -> dict[str, torch.Tensor]:
    """Load a safetensors file or a torch checkpoint.

    Args:
        path: The file.
        trust_pickle: Allow a pickle to run arbitrary code.

    Returns:
        The tensors by name on the CPU, see `unwrap`; memory-mapped if the file is a zip file.

    Raises:
        PolyplinkError: If the file is missing, broken or of another type, or would run code.
    """
    check_is_file(path)
    with path.open("rb") as file:
        head = file.read(9)
    if head[8:] == b"{":
        return unwrap(read_tensors(path, "copy or download it again"))
    if head[:2] not in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04"):
        raise PolyplinkError(
            f"{path} is neither safetensors nor a file of torch", "give a .safetensors or .pth file"
        )
    try:
        with torch.serialization.safe_globals(_HARMLESS), path.open("rb") as file:
            # As an open file: torch trusts the ending .safetensors of a path.
            is_safetensors = path.suffix == SUFFIX
            zipped = not is_safetensors and zipfile.is_zipfile(path)
            source = file if is_safetensors else path
            loaded = torch.load(source, "cpu", weights_only=not trust_pickle, mmap=zipped)
    except _BROKEN as error:
        refused = re.search(r"GLOBAL (\S+)|(?:class|function) (\S+)", str(error))
        if refused and isinstance(error, pickle.UnpicklingError):
            raise PolyplinkError(
                f"{path} would run code when it is read ({refused[1] or refused[2]})",
                "give --trust-pickle if you trust its authors",
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
    """Extract the tensors of a checkpoint by name.

    They are those of the teacher in a distillation, or else of model, state_dict or the file
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


def check_published(path: Path, digest: str, sha256: str) -> None:
    """Refuse a file with another SHA-256 than the published one, if that is known.

    Args:
        path: The file; names of files from torch's hub contain eight digits of the SHA-256.
        digest: SHA-256 of the file.
        sha256: The published SHA-256, or "" if unknown.
    """
    name_digest = _HUB_NAME.search(path.name)
    for prefix in (sha256, name_digest.group(1) if name_digest else ""):
        if not digest.startswith(prefix):
            raise PolyplinkError(
                f"{path} is not the published file: its SHA-256 begins with {digest[:8]}, not "
                f"{prefix[:8]}",
                "download it again, or give --unverified if you know why",
            )


class FittedWeights(NamedTuple):
    """Published weights, ready for an encoder.

    Attributes:
        published: The published weights.
        tensors: The complete state dict of the encoder.
        encoder: The encoder's configuration, with presets filled in.
        prepare: Settings of its crops.
        renamed: Whether names differed from the encoder's and tensors were matched by order.
    """

    published: Published
    tensors: State
    encoder: AnyEncoderConfig
    prepare: PrepareSettings
    renamed: bool = False


def fit_published(
    path: Path, state: State, config: FoundationConfig | None = None
) -> FittedWeights:
    """Recognise published tensors and fit them to their encoder, exactly.

    Args:
        path: The file, for messages.
        state: Result of `read_published`.
        config: Configuration of a foundation encoder; its `model` is ignored.

    Raises:
        PolyplinkError: If the tensors are of no known encoder, a tensor is missing, unknown or of
            another shape, or a configuration is given for an encoder that has only one.
    """
    published = recognise(state)
    if published is None:
        first = ", ".join(list(state)[:3]) or "no tensor at all"
        raise PolyplinkError(
            f"{path} holds weights of an unknown encoder (it begins with {first})",
            f"known are {', '.join([*FOUNDATION, *REFERENCES, BACKBONE.title])}; for a backbone of "
            "timm give its name with --timm",
        )
    if published is BACKBONE:
        return fit_timm(path, state, published.name, config)._replace(published=published)
    encoder: AnyEncoderConfig
    if isinstance(published, Reference):
        if config not in (None, FoundationConfig()):
            raise PolyplinkError(
                f"{path} is {published.title}, which has one size, normalisation and pooling",
                "leave --preset, --size and --pooling out",
            )
        encoder, prepare = published.encoder, published.prepare
        tensors: State = published.renamed(state)
    else:
        assert isinstance(published, Spec)
        values = vars(config or FoundationConfig()) | {
            "model": published.name,
            "frame_weights": None,
        }
        encoder = settled = published.settle(FoundationConfig(**values))
        renamed = published.library_names(settled, state)
        tensors = {f"backbone.{name}": tensor for name, tensor in renamed.items()}
        prepare = PrepareSettings(size=settled.size or published.size)
    with torch.device("meta"):  # only names and shapes
        check_state(path, tensors, build_encoder(encoder).state_dict(), _OTHER_MODEL)
    return FittedWeights(published, tensors, encoder, prepare)


def fit_timm(
    path: Path,
    state: State,
    name: str,
    config: FoundationConfig | None = None,
    *,
    stages: tuple[int, ...] = (),
    rings: tuple[float, ...] = (),
) -> FittedWeights:
    """Fit published tensors to a backbone of timm: a tracklet's vector is the mean of its frames'.

    Args:
        path: The file, for messages.
        state: Result of `read_published`.
        name: The model's name in timm.
        config: Only `preset` and `size` are used; with a None size and the preset "own", image
            size, mean and standard deviation are those of timm.
        stages: See `SfeConfig.stages`.
        rings: See `SfeConfig.rings`.

    Raises:
        PolyplinkError: If timm has no such model, the tensors do not fit it, or it does not take
            images of the size.

    Example:
        >>> model, _ = build_frame_encoder("timm:test_resnet")
        >>> fit_timm(Path("x.pth"), model.state_dict(), "test_resnet").prepare.size
        160
    """
    config = config or FoundationConfig()
    if config.pooling is not None:
        raise PolyplinkError("a backbone of timm has one pooling", "leave --pooling out")
    encoder = SfeConfig(FAMILY + name, stages=stages, rings=rings)
    model, _ = build_frame_encoder(FAMILY + name, stages=stages, rings=rings)
    pretrained = getattr(model, "pretrained_cfg", {})
    expected_state = model.state_dict()
    tensors = backbone_state(model, state)
    renamed = tensors.keys() != expected_state.keys()
    if renamed:
        tensors = _rename_by_order(expected_state, state) or tensors
    check_state(path, tensors, expected_state, _OTHER_MODEL)
    as_pretrained = config.preset == "own"
    size = config.size or (int(pretrained["input_size"][-1]) if as_pretrained else REFERENCE_SIZE)
    try:
        with torch.inference_mode():
            model.eval()(torch.zeros(1, 3, size, size))
    except (RuntimeError, AssertionError) as error:
        raise PolyplinkError(
            f"{name} takes no images of {size} pixels ({first_line(error)})", "leave --size out"
        ) from None
    if as_pretrained:
        encoder = replace(encoder, mean=tuple(pretrained["mean"]), std=tuple(pretrained["std"]))
    published = Published(
        name=name,
        title=f"timm's {name}",
        source="not stated",
        file=path.name,
        licence=f"not stated ({pretrained.get('license') or 'unknown'} for timm's own weights)",
        marks=(),
    )
    tensors = {f"backbone.{key}": tensor for key, tensor in tensors.items()}
    return FittedWeights(published, tensors, encoder, PrepareSettings(size=size), renamed)


def _rename_by_order(expected_state: State, state: State) -> dict[str, torch.Tensor] | None:
    """Rename tensors to those of a backbone by their order.

    Every pair must agree in shape and in the last part of the name ("weight", "running_var"); only
    a classifier of up to two tensors may follow.

    Returns:
        The tensors; None if a pair does not agree, or if the names are in alphabetical order, as in
        safetensors files, where the order has no meaning.
    """
    expected = [(key, value) for key, value in expected_state.items() if not key.endswith(COUNTER)]
    stored = [(key, value) for key, value in state.items() if not key.endswith(COUNTER)]
    names = [key for key, _ in stored]
    if not 0 <= len(stored) - len(expected) <= 2 or names == sorted(names):
        return None
    tensors = {key: value for key, value in expected_state.items() if key.endswith(COUNTER)}
    for (key, value), (name, tensor) in zip(expected, stored, strict=False):
        if key.rpartition(".")[2] != name.rpartition(".")[2] or value.shape != tensor.shape:
            return None
        tensors[key] = tensor
    return tensors


def seen_by_published(published: Published) -> Seen:
    """Procedures and data sets that published weights were trained on."""
    if published is HMVE:
        return Seen(trained=[("real-colon", name, name) for name in published_splits()["rc27"]])
    return Seen(datasets=published.saw)
