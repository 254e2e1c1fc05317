"""The cost of an encoder in multiply-accumulates.

The papers count with thop: module by module, so that matrix products inside attention are left out
and norms are counted. This module counts in that way, and also all products without norms; it works
on tensors without memory (device "meta") too.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

Rule = Callable[[Any, torch.Tensor, torch.Tensor], int]  # a layer, its input and its output


def _count_products(layer: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """Outputs times the inputs of each; a bias is not counted."""
    return y.numel() * int(layer.weight[0].numel())


def _count_norm(layer: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """Two for each input, four if the norm also scales and shifts."""
    return x.numel() * (2 if layer.weight is None else 4)


def _count_average(layer: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """One for each input of an average, one for each output."""
    return y.numel() * (prod(x.shape[2:]) // prod(y.shape[2:]) + 1)


# By the name of the class: subclasses with other names are not counted by thop either.
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d", "Linear"), _count_products),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm"), _count_norm),
    "AdaptiveAvgPool2d": _count_average,
}


def count_macs(module: nn.Module, run: Callable[[], object]) -> tuple[int, int]:
    """Multiply-accumulates of a module.

    Args:
        module: The module.
        run: Runs the module once.

    Returns:
        The number by the rules of thop 0.1.1; and the number of all matrix products and
        convolutions, including attention.
    """
    total = 0

    def count(part: nn.Module, inputs: tuple[torch.Tensor, ...], y: torch.Tensor) -> None:
        nonlocal total
        total += _RULES[type(part).__name__](part, inputs[0], y)

    counted = (m for m in module.modules() if type(m).__name__ in _RULES)
    hooks = [m.register_forward_hook(count) for m in counted]
    try:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return total, int(counter.get_total_flops()) // 2
