"""Frames to vectors: any backbone of timm."""

import importlib
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from polyplink.core._torchvision import heal_torchvision
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.encoders.state import check_state
from polyplink.encoders.store import stored_path

FAMILY = "timm:"


def _timm() -> ModuleType:
    """Timm, imported when used: it takes seconds, and torchvision must be healed before."""
    heal_torchvision()
    return importlib.import_module("timm")


def build_frame_encoder(name: str, weights: Path | None = None) -> tuple[nn.Module, int]:
    """Build a backbone that maps frames (n, 3, h, w) to vectors (n, width).

    Args:
        name: "timm:" and a model name of timm, e.g. "timm:resnet50.tv2_in1k".
        weights: Safetensors file with pre-trained values under timm's names; None leaves the
            random values. Nothing is downloaded.

    Returns:
        The module without its classifier, and its output width.

    Raises:
        PolyplinkError: If there is no such model, or the file does not fit it.
    """
    if not name.startswith(FAMILY):
        raise PolyplinkError(f"frame encoder {name!r} is of no known family", "write timm:NAME")
    model_name = name.removeprefix(FAMILY)
    timm = _timm()
    try:
        model: nn.Module = timm.create_model(model_name, pretrained=False, num_classes=0)
    except (RuntimeError, ValueError):
        near = get_close_matches(model_name.split(".")[0], timm.list_models(), n=1)
        mend = f"did you mean timm:{near[0]}?" if near else "see timm.list_models() for the names"
        raise PolyplinkError(f"timm knows no model {model_name!r}", mend) from None
    if weights is not None:
        _load_backbone(model, weights)
    # Some models widen their features in what is left of the head.
    width = getattr(model, "head_hidden_size", None) or model.num_features
    return model, int(width)  # type: ignore[arg-type]


def _load_backbone(model: nn.Module, path: Path) -> None:
    if not path.is_file() and path.name == str(path):
        path = added if (added := stored_path(path.name)).is_file() else path
    if not path.is_file():
        raise PolyplinkError(
            f"no file {path} with weights of the frame encoder",
            "name the file with --set encoder.frame_weights=FILE, or none to start from random "
            "values",
        )
    try:
        state = load_file(path)
    except SafetensorError as error:
        raise PolyplinkError(
            f"{path} is not safetensors ({first_line(error)})", "convert it first"
        ) from None
    # A published file also holds the classifier, which is not part of a frame encoder.
    named = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
    heads = (named,) if isinstance(named, str) else tuple(named)
    prefixes = tuple(f"{head}." for head in heads)
    kept = {key: value for key, value in state.items() if not key.startswith(prefixes)}
    check_state(path, kept, model.state_dict())
    model.load_state_dict(kept)


def to_pixels(frames: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """Crops as stored to what a backbone reads.

    Args:
        frames: uint8 (n, h, w, 3), or float (n, h, w, 3) already in [0, 1].
        mean: (3, 1, 1), subtracted.
        std: (3, 1, 1), divides.

    Returns:
        float32 (n, 3, h, w) in channels_last layout, which is how the crops lie in memory.
    """
    if frames.dtype != torch.uint8:
        return (frames.permute(0, 3, 1, 2) - mean) / std  # n 3 h w
    # Whole rows: three channels alone are too short a loop. In place: memory is what takes time.
    width = frames.shape[2]
    rows = frames.flatten(2).float()  # n h 3w, a copy
    rows = rows.div_(255.0).sub_(mean.flatten().repeat(width)).div_(std.flatten().repeat(width))
    return rows.view(frames.shape).permute(0, 3, 1, 2)  # n 3 h w, a view
