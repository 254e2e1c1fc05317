"""The cost of an encoder: parameters and multiply-accumulates.

The papers count with thop: module by module, so that matrix products inside attention are left out
and norms are counted. `module_macs` counts so; `all_macs` counts every product, and no norm. Both
run on tensors without memory (device "meta").
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def parameters(*modules: nn.Module) -> int:
    """Parameters of modules together."""
    return sum(p.numel() for module in modules for p in module.parameters())


def convolution_macs(module: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """Outputs times the inputs that each is made of; the bias is not counted."""
    return int(y.numel() * (x.shape[1] // module.groups) * prod(module.weight.shape[2:]))


def linear_macs(module: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """Outputs times inputs; the bias is not counted."""
    return y.numel() * int(module.in_features)


def norm_macs(module: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """Two for each input, four where the norm also scales and shifts."""
    scales = getattr(module, "affine", False) or getattr(module, "elementwise_affine", False)
    return x.numel() * (4 if scales else 2)


def average_macs(module: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """One for each input that an average takes, one for each output."""
    return y.numel() * (prod(x.shape[2:]) // prod(y.shape[2:]) + 1)


Rule = Callable[[Any, torch.Tensor, torch.Tensor], int]
# By the name of the class: what libraries derive under other names is not counted by thop either.
_RULES: dict[str, Rule] = (
    dict.fromkeys(("Conv1d", "Conv2d", "Conv3d"), convolution_macs)
    | dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm"), norm_macs)
    | {"Linear": linear_macs, "AdaptiveAvgPool2d": average_macs}
)


def module_macs(module: nn.Module, run: Callable[[], object]) -> int:
    """Multiply-accumulates as thop 0.1.1 counts them.

    Args:
        module: What is looked at.
        run: Runs it once.
    """
    total = 0

    def count(part: nn.Module, given: tuple[torch.Tensor, ...], y: torch.Tensor) -> None:
        nonlocal total
        total += _RULES[type(part).__name__](part, given[0], y)

    counted = (m for m in module.modules() if type(m).__name__ in _RULES)
    hooks = [m.register_forward_hook(count) for m in counted]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return total


def all_macs(run: Callable[[], object]) -> int:
    """Multiply-accumulates of all matrix products and convolutions, those of attention too."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return int(counter.get_total_flops()) // 2
