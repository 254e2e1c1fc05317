"""Counts against formulas, and the counter's own rules."""

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
def test_each_layer_equals_a_count_by_hand(
    layer: nn.Module, shape: tuple[int, ...], count: int
) -> None:
    assert count_macs(layer, lambda: layer(torch.rand(shape)))[0] == count


class Block(nn.Module):
    """Counted parts, one used twice, and attention, which is not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(self.norm(self.linear(x)))  # b s 8
        found: torch.Tensor = self.attention(x, x, x)[0]
        return found


def test_modules_are_counted_each_time_they_run_and_attention_is_not() -> None:
    block, x = Block(), torch.rand(2, 5, 8)
    assert count_macs(block, lambda: block(x))[0] == 2 * (2 * 5 * 8 * 8) + 4 * (2 * 5 * 8)
    assert count_macs(block, lambda: None) == (0, 0)  # the hooks are gone, and nothing ran
    products = 2 * 5 * 8 * 8 * (2 + 3 + 1) + 2 * (2 * 5 * 5 * 8)  # linears, qkv, out; attention
    block.train()  # in evaluation a fused kernel hides them
    assert count_macs(block, lambda: block(x))[1] == products
