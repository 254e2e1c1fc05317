"""The soft-target losses as double loops, in float64 and differentiable."""

from collections.abc import Callable

import torch

Weight = Callable[[int, int], float]


def naive_loss(z: torch.Tensor, weight: Weight, temperature: float) -> torch.Tensor:
    u = [row / row.norm() for row in z]
    rows = []
    for a in range(len(u)):
        others = [b for b in range(len(u)) if b != a]
        total = sum(weight(a, b) for b in others)
        if total == 0:
            continue
        below = torch.stack([torch.exp(u[a] @ u[b] / temperature) for b in others]).sum()
        row = z.new_zeros(())
        for b in others:
            q = torch.exp(u[a] @ u[b] / temperature) / below
            row = row - weight(a, b) / total * torch.log(q)
        rows.append(row)
    return torch.stack(rows).mean() if rows else z.new_zeros(())


def assert_same_loss(
    z: torch.Tensor,
    ours: Callable[[torch.Tensor], torch.Tensor],
    weight: Weight,
    temperature: float,
) -> None:
    """Values and gradients agree to 1e-6, for float64 and float32; in bf16 to its own digits."""
    for dtype in (torch.float64, torch.float32):
        left = z.to(dtype, copy=True).requires_grad_()
        right = left.detach().double().requires_grad_()
        mine, naive = ours(left), naive_loss(right, weight, temperature)
        torch.testing.assert_close(mine.double(), naive, atol=1e-6, rtol=1e-6)
        (slope,) = torch.autograd.grad(mine, left, allow_unused=False)
        (wanted,) = torch.autograd.grad(naive, right, allow_unused=True)
        wanted = torch.zeros_like(right) if wanted is None else wanted
        torch.testing.assert_close(slope.double(), wanted, atol=1e-6, rtol=1e-6)
    low = z.bfloat16().requires_grad_()
    value = ours(low)
    (slope,) = torch.autograd.grad(value, low)
    assert torch.isfinite(slope).all()
    exact = float(naive_loss(z.bfloat16().double(), weight, temperature))
    assert abs(float(value.detach()) - exact) < 1e-3 * max(1.0, abs(exact))


def batch(seed: int, n: int = 14, d: int = 6) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
