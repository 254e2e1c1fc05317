"""Masked sums against loops."""

import math

import torch

from polyplink.learn.masked import cosine_logits, masked_logsumexp, mean_over


def test_masked_logsumexp_equals_a_loop() -> None:
    logits = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[:, 0] = True
    found = masked_logsumexp(logits, mask)
    for i in range(6):
        naive = math.log(sum(math.exp(logits[i, j]) for j in range(9) if mask[i, j]))
        assert math.isclose(found[i].item(), naive, rel_tol=1e-12)


def test_an_empty_row_is_finite_in_value_and_gradient() -> None:
    logits = torch.full((2, 3), 1e4, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    rows = masked_logsumexp(logits, mask)
    mean_over(rows, mask.any(dim=1)).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[1] == 0).all()


def test_mean_over_nothing_is_zero() -> None:
    assert mean_over(torch.tensor([1.0, 2.0]), torch.tensor([False, False])) == 0
    assert mean_over(torch.tensor([1.0, 2.0]), torch.tensor([False, True])) == 2


def test_cosines_are_in_float64_also_under_autocast() -> None:
    a = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    expected = cosine_logits(a, a, 0.07)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = cosine_logits(a, a, 0.07)
    assert inside.dtype == torch.float64
    assert torch.equal(inside, expected)
    assert torch.allclose(expected.diagonal(), torch.full((4,), 1 / 0.07, dtype=torch.float64))
