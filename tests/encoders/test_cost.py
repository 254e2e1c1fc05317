"""Multiply-accumulates of layers against formulas, and what the counter counts."""

import pytest
import torch
from torch import nn

from polyplink.encoders.cost import count_macs


@pytest.mark.parametrize(
    ("layer", "shape", "count"),
    [
        (nn.Conv2d(4, 6, 3, groups=2), (2, 4, 5, 5), 2 * 6 * 3 * 3 * (4 // 2) * 9),
        (nn.Linear(3, 7), (5, 3), 5 * 7 * 3),
        (nn.BatchNorm2d(4), (2, 4, 5, 5), 4 * 200),
        (nn.LayerNorm(4), (3, 4), 4 * 12),
        (nn.LayerNorm(4, elementwise_affine=False), (3, 4), 2 * 12),
        (nn.AdaptiveAvgPool2d(1), (2, 4, 5, 5), 8 * (25 + 1)),
    ],
)
def test_macs_of_each_layer_equal_its_formula(
    layer: nn.Module, shape: tuple[int, ...], count: int
) -> None:
    assert count_macs(layer, lambda: layer(torch.rand(shape)))[0] == count


class Block(nn.Module):
    """Layers that are counted, one of them used twice, and attention, which is not."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(self.norm(self.linear(x)))  # b s 8
        attended: torch.Tensor = self.attention(x, x, x)[0]
        return attended


def test_modules_are_counted_each_time_they_run_except_attention() -> None:
    block, x = Block(), torch.rand(2, 5, 8)
    assert count_macs(block, lambda: block(x))[0] == 2 * (2 * 5 * 8 * 8) + 4 * (2 * 5 * 8)
    assert count_macs(block, lambda: None) == (0, 0)  # the hooks are removed, and nothing ran
    products = 2 * 5 * 8 * 8 * (2 + 3 + 1) + 2 * (2 * 5 * 5 * 8)  # linears, qkv, out; attention
    block.train()  # in evaluation mode a fused kernel hides the products
    assert count_macs(block, lambda: block(x))[1] == products
