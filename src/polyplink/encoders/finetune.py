"""Which part of an encoder learns: all, nothing, the last blocks, low-rank adapters, statistics."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from polyplink.core.errors import PolyplinkError
from polyplink.core.extras import extras_installed
from polyplink.core.lazy_torch import torch
from polyplink.core.ranges import AT_LEAST_ONE, Range, Ranged

if TYPE_CHECKING:
    from polyplink.encoders.encoder import Encoder, FrameWise

_BLOCKS = ("blocks", "layer", "layers", "stages")  # what libraries call their blocks
_ATTENTION = ("attn", "attention", "mixer")


@dataclass(frozen=True)
class FineTune(Ranged, prefix="finetune"):
    """Which parts of a backbone are trained; the layers after it are always trained.

    Attributes:
        how: The "whole" backbone, nothing of it ("frozen"), its "last" blocks, or low-rank
            adapters beside its attention ("lora": Hu et al., ICLR 2022).
        blocks: How many of the last blocks learn.
        rank: Rank of the adapters.
        alpha: Scale of the adapters: they are multiplied by alpha / rank.
        dropout: Dropout before the adapters.
    """

    how: Literal["whole", "frozen", "last", "lora"] = "whole"
    blocks: Annotated[int, AT_LEAST_ONE] = 2
    rank: Annotated[int, AT_LEAST_ONE] = 8
    alpha: float = 16.0
    dropout: Annotated[float, Range(0, 1, below=True)] = 0.0


def blocks_of(backbone: torch.nn.Module) -> list[torch.nn.Module]:
    """The blocks of a backbone in the order of the data.

    Of a ViT its layers, of a ResNet and the like the blocks of all stages.

    Raises:
        PolyplinkError: If there are none by any known name.
    """
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    stages = [getattr(backbone, f"layer{i}") for i in range(1, 5) if hasattr(backbone, f"layer{i}")]
    candidates = (getattr(module, name, None) for module in backbone.modules() for name in _BLOCKS)
    stages = stages or next(
        (list(children) for children in candidates if isinstance(children, lists) and children), []
    )
    inner = [getattr(stage, "blocks", stage) for stage in stages]
    parts = [list(p) if isinstance(p, lists) else [p] for p in inner]
    blocks = [block for part in parts for block in part]
    PolyplinkError.unless(
        bool(blocks), "the backbone has no blocks by a known name", "give --set finetune.how=whole"
    )
    return blocks


def adapt_statistics(encoder: FrameWise, batches: Iterable[torch.Tensor]) -> int:
    """Replace the statistics of BatchNorm layers by those of other crops, which need no labels.

    Adaptive batch normalisation (Li et al., arXiv 1603.04779): mean and variance of every layer are
    those of the new crops; no parameter changes.

    Args:
        encoder: Changed in place, and left in evaluation mode.
        batches: Crops uint8 (n, h, w, 3) on the encoder's device.

    Returns:
        The number of layers; 0 if the encoder has none, and nothing is changed.
    """
    layers = [
        m for m in encoder.eval().modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)
    ]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean over all batches
        layer.train()
    with torch.no_grad():
        for crops in batches if layers else ():
            encoder.encode_frames(crops)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    encoder.eval()
    return len(layers)


def trainable(encoder: Encoder, tune: FineTune) -> Encoder:
    """Let a part of an encoder learn; the same encoder, changed in place.

    A BatchNorm that does not learn keeps its statistics too (see `Encoder.train`).

    Raises:
        PolyplinkError: If the backbone has fewer blocks, or no attention to adapt.
    """
    encoder.requires_grad_(True)
    if tune.how == "whole":
        return encoder
    encoder.backbone.requires_grad_(False)
    if tune.how == "last":
        blocks = blocks_of(encoder.backbone)
        PolyplinkError.unless(
            tune.blocks <= len(blocks),
            f"finetune.blocks is {tune.blocks}, and the backbone has {len(blocks)}",
            f"give --set finetune.blocks={len(blocks)} or fewer",
        )
        for block in blocks[-tune.blocks :]:
            block.requires_grad_(True)
    if tune.how != "lora":
        return encoder
    targets = [
        name
        for name, module in encoder.backbone.named_modules()
        if isinstance(module, torch.nn.Linear) and any(part in name for part in _ATTENTION)
    ]
    PolyplinkError.unless(
        bool(targets),
        "the backbone has no attention to adapt",
        "give --set finetune.how=whole, last or frozen",
    )
    with extras_installed("finetune.how=lora"):
        peft: Any = importlib.import_module("peft")
    config = peft.LoraConfig(
        r=tune.rank,
        lora_alpha=tune.alpha,
        lora_dropout=tune.dropout,
        target_modules=targets,
        bias="none",
    )
    peft.inject_adapter_in_model(config, encoder.backbone)
    return encoder


def merge_adapters(encoder: Encoder) -> Encoder:
    """Add adapters to the layers beside which they stand, and drop them; for saving.

    Afterwards the tensors have the names and shapes that they had before `trainable`, so that
    the weights are read as any others. An encoder without adapters stays as it is.
    """
    for name, module in list(encoder.named_modules()):
        base = getattr(module, "base_layer", None)
        if isinstance(base, torch.nn.Module) and hasattr(module, "lora_A"):
            layer: Any = module
            layer.merge()
            parent = encoder.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], layer.get_base_layer())
    return encoder
