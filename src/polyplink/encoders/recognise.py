"""Published tensors to weights of this program: which encoder they are of, and their names here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import AnyEncoderConfig, FoundationConfig
from polyplink.encoders.foundation import FOUNDATION, Origin, Spec
from polyplink.encoders.reference import REFERENCES, Reference
from polyplink.encoders.state import check_state
from polyplink.tracklets import PrepareSettings

_HEADS = ("head.", "dino_head.", "ibot_head.")  # of the pre-training, beside the backbone
RESNET = "resnet50"


State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Recognised:
    """Published weights that fit an encoder.

    Attributes:
        name: What they are called here.
        title: What they are called elsewhere.
        tensors: The encoder's state, complete.
        config: What it is built from, presets filled in.
        prepare: The crops that it reads.
        origin: Where they are to be had.
    """

    name: str
    title: str
    tensors: State
    config: AnyEncoderConfig
    prepare: PrepareSettings
    origin: Origin


def recognise(state: State) -> Spec | Reference | None:
    """Which published encoder tensors are of; None for none that is known."""
    for reference in REFERENCES.values():
        if reference.mark(state):
            return reference
    for family in {spec.build for spec in FOUNDATION.values()}:
        if (name := family.recognises(state)) is not None:
            return FOUNDATION[name]
    return None


def is_resnet(state: State) -> bool:
    """Whether tensors are torchvision's ResNet-50, whose names timm shares."""
    last = state.get("layer4.2.conv3.weight")
    return last is not None and tuple(last.shape) == (2048, 512, 1, 1) and "conv1.weight" in state


def fit_published(path: Path, state: State, config: FoundationConfig | None = None) -> Recognised:
    """Put published tensors into their encoder, strictly: every tensor, none besides.

    Args:
        path: The file, for messages.
        state: From `unwrap`.
        config: How a foundation encoder is to be used; its `model` is overruled.

    Raises:
        PolyplinkError: If they are of no known encoder, or a tensor is missing, too many or of
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
        return _fit_reference(path, state, known)
    return _fit_foundation(path, state, known, config or FoundationConfig())


def _fit_reference(path: Path, state: State, known: Reference) -> Recognised:
    if known.tensors is not None:
        _check_count(path, known.title, len(state), known.tensors)
    tensors = known.library_names(state)
    _check(path, known.encoder, tensors)
    return Recognised(known.name, known.title, tensors, known.encoder, known.prepare, known.origin)


def _fit_foundation(path: Path, state: State, spec: Spec, config: FoundationConfig) -> Recognised:
    values = {"model": spec.name, "frame_weights": None}
    settled = spec.settle(FoundationConfig(**(vars(config) | values)))
    kept = {name: tensor for name, tensor in state.items() if not name.startswith(_HEADS)}
    renamed = spec.build.library_names(spec, settled, kept)
    if settled.depth is None:
        _check_count(path, spec.title, len(renamed), spec.tensors)
    tensors = {f"backbone.{name}": tensor for name, tensor in renamed.items()}
    _check(path, settled, tensors)
    prepare = PrepareSettings(size=settled.size or spec.size)
    return Recognised(spec.name, spec.title, tensors, settled, prepare, spec.origin)


def _check(path: Path, config: AnyEncoderConfig, tensors: State) -> None:
    with torch.device("meta"):  # names and shapes alone
        wanted = build_encoder(config).state_dict()
    check_state(path, tensors, wanted)


def _check_count(path: Path, title: str, found: int, wanted: int) -> None:
    PolyplinkError.unless(
        found == wanted,
        f"{path} holds {found} tensors, and {title} has {wanted}",
        "give the published file",
    )
