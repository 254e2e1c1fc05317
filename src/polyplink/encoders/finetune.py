"""Trainable parts of an encoder: all, none, the last blocks, or low-rank adapters."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from polyplink.core.errors import PolyplinkError, extras_installed
from polyplink.core.lazy_torch import torch
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, Range, Ranged

if TYPE_CHECKING:
    from polyplink.encoders.encoder import Encoder

_BLOCKS = ("blocks", "layer", "layers", "stages")  # attributes of blocks in libraries
_ATTENTION = ("attn", "attention", "mixer")


@dataclass(frozen=True)
class FineTune(Ranged, prefix="finetune"):
    """The trained parts of a backbone; the layers after it are always trained.

    Attributes:
        how: The "whole" backbone, nothing of it ("frozen"), its "last" blocks, or low-rank
            adapters of its attention ("lora": Hu et al., ICLR 2022).
        blocks: Number of last blocks that are trained.
        rank: Rank of the adapters.
        alpha: Scale of the adapters, which are multiplied by alpha / rank.
        dropout: Dropout before the adapters.
    """

    how: Literal["whole", "frozen", "last", "lora"] = "whole"
    blocks: Annotated[int, AT_LEAST_ONE] = 2
    rank: Annotated[int, AT_LEAST_ONE] = 8
    alpha: Annotated[float, POSITIVE] = 16.0
    dropout: Annotated[float, Range(0, 1, below=True)] = 0.0


def blocks_of(backbone: torch.nn.Module) -> list[torch.nn.Module]:
    """The blocks of a backbone in forward order.

    These are the layers of a ViT, or the blocks of all stages of a ResNet and similar networks.

    Raises:
        PolyplinkError: If the backbone has no blocks by a known name.
    """
    lists = (torch.nn.ModuleList, torch.nn.Sequential)

    # The stages: layer1 to layer4 of a ResNet, or the first list of modules with a known name.
    stages = [getattr(backbone, f"layer{i}") for i in range(1, 5) if hasattr(backbone, f"layer{i}")]
    for module in backbone.modules():
        for name in _BLOCKS:
            children = getattr(module, name, None)
            if not stages and isinstance(children, lists):
                stages = list(children)

    # The blocks of each stage; a stage without a list of blocks is a block.
    blocks: list[torch.nn.Module] = []
    for stage in stages:
        inner = getattr(stage, "blocks", stage)
        blocks += list(inner) if isinstance(inner, lists) else [inner]
    if not blocks:
        raise PolyplinkError(
            "the backbone has no blocks by a known name", "give --set finetune.how=whole"
        )
    return blocks


def trainable(encoder: Encoder, tune: FineTune) -> Encoder:
    """Make a part of an encoder trainable, in place, and return the encoder.

    A frozen BatchNorm keeps its statistics too (see `Encoder.train`).

    Raises:
        PolyplinkError: If the backbone has fewer blocks, or no attention to adapt, or nothing of
            the encoder would be trained.
    """
    encoder.requires_grad_(True)
    if tune.how == "whole":
        return encoder
    encoder.backbone.requires_grad_(False)

    # The last blocks.
    if tune.how == "last":
        blocks = blocks_of(encoder.backbone)
        if tune.blocks > len(blocks):
            raise PolyplinkError(
                f"finetune.blocks is {tune.blocks}, but the backbone has {len(blocks)}",
                f"give --set finetune.blocks={len(blocks)} or fewer",
            )
        for block in blocks[-tune.blocks :]:
            block.requires_grad_(True)
    if tune.how == "lora":
        _add_adapters(encoder, tune)
    if not any(parameter.requires_grad for parameter in encoder.parameters()):
        raise PolyplinkError(
            f"finetune.how={tune.how} leaves nothing of this encoder to train: it ends with its "
            "backbone",
            "give --set finetune.how=last, or fit it without training by `polyplink weights adapt`",
        )
    return encoder


def _add_adapters(encoder: Encoder, tune: FineTune) -> None:
    """Add trainable low-rank adapters to the linear layers of a backbone's attention."""
    targets = []
    for name, module in encoder.backbone.named_modules():
        in_attention = any(part in name for part in _ATTENTION)
        if in_attention and isinstance(module, torch.nn.Linear):
            targets.append(name)
    if not targets:
        raise PolyplinkError(
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


def merge_adapters(encoder: Encoder) -> Encoder:
    """Merge adapters into their layers, in place, before saving.

    The tensors then have their names and shapes from before `trainable`, so that the weights can be
    read like any others. An encoder without adapters is not changed.
    """
    for name, module in list(encoder.named_modules()):
        base = getattr(module, "base_layer", None)
        if isinstance(base, torch.nn.Module) and hasattr(module, "lora_A"):
            layer: Any = module
            layer.merge()
            parent = encoder.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], layer.get_base_layer())
    return encoder
