"""The library that holds the architectures, imported when used."""

import importlib
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn

from polyplink.core._torchvision import heal_torchvision
from polyplink.core.errors import PolyplinkError


def transformers() -> ModuleType:
    """transformers: it takes seconds, and torchvision must be healed before.

    Raises:
        PolyplinkError: If it is not installed.
    """
    heal_torchvision()
    try:
        module = importlib.import_module("transformers")
    except ImportError:
        raise PolyplinkError(
            "this encoder needs transformers, which is not installed",
            "pip install 'polyplink[foundation]'",
        ) from None
    module.utils.logging.disable_progress_bar()
    return module


def from_published_names(
    kind: type[nn.Module], config: Any, state: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Tensors under the names of the Hub to the names that the installed library uses inside.

    transformers 5 renamed its modules; its own loader knows how.

    Args:
        kind: A class of transformers.
        config: Its configuration.
        state: Tensors under the published names.

    Returns:
        Tensors under the library's names. Whatever the loader did not take is handed back under
        its own name, and whatever it missed is left out, so that a check finds both.
    """
    model, report = kind.from_pretrained(  # type: ignore[attr-defined]
        None, config=config, state_dict=dict(state), output_loading_info=True, dtype=torch.float32
    )
    taken: dict[str, torch.Tensor] = model.state_dict()
    for name in report["missing_keys"]:
        taken.pop(name, None)
    return taken | {name: state[name] for name in report["unexpected_keys"] if name in state}


def split_qkv(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of a fused projection (3d, ...) to those of query, key and value (d, ...)."""
    query, key, value = torch.chunk(tensor, 3)
    return query, key, value


def renamed(
    state: Mapping[str, torch.Tensor], names: Sequence[tuple[str, str]], qkv: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Tensors of Meta's vision transformers under the names of the Hub.

    Args:
        state: Tensors; those under the Hub's names stay as they are.
        names: Patterns and what replaces them, all applied to every name in this order.
        qkv: What replaces ".attn.qkv." for query, key and value, whose rows are fused.
    """
    found = {}
    for old, tensor in state.items():
        name = old
        for pattern, new in names:
            name = re.sub(pattern, new, name)
        if ".attn.qkv." in name:
            for part, rows in zip(qkv, split_qkv(tensor), strict=True):
                found[name.replace(".attn.qkv.", part)] = rows
        else:
            found[name] = tensor
    return found
