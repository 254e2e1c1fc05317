"""Contrastive losses: value and gradient equal double loops, and are never NaN."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch

from polyplink.core.parts import LOSSES
from polyplink.learn.contrastive import (
    Views,
    cosine_logits,
    identities,
    in_batch_accuracy,
    masked_logsumexp,
    mean_over,
)
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.soft_targets import (
    IntraInterLoss,
    NtXentLoss,
    SupervisedLoss,
    TemporallyAwareLoss,
    equal_codes,
    soft_target_loss,
)
from polyplink.learn.train_config import AnyLoss
from polyplink.testing import check_loss

KINDS = tuple(LOSSES.values())
OTHER_LOSSES = {NoiseAwareLoss}  # not a cross-entropy against weights of pairs
BAG = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 6]  # two bags have one view
POLYP = [0, 0, 0, 4, 4, 7, 9, 9, 9, 9, 2, 2, 5, 5]  # polyp 7 has one view
PROCEDURE = [1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 8, 8]
TIME = [0.0, 0.4, 1.0, 0.2, 0.2, 0.5, 0.0, 0.1, 0.7, 1.0, 0.3, 0.9, 0.0, 1.0]
Weight = Callable[[int, int], float]


def naive_loss(z: torch.Tensor, weight: Weight, temperature: float) -> torch.Tensor:
    u = [row / row.norm() for row in z]
    rows = []
    for a in range(len(u)):
        others = [b for b in range(len(u)) if b != a]
        total = sum(weight(a, b) for b in others)
        if total == 0:
            continue
        denominator = torch.stack([torch.exp(u[a] @ u[b] / temperature) for b in others]).sum()
        row = z.new_zeros(())
        for b in others:
            q = torch.exp(u[a] @ u[b] / temperature) / denominator
            row = row - weight(a, b) / total * torch.log(q)
        rows.append(row)
    return torch.stack(rows).mean() if rows else z.new_zeros(())


def assert_same_loss(
    loss: Callable[[torch.Tensor], torch.Tensor], weight: Weight, temperature: float
) -> None:
    """Assert that a loss and its gradient equal the loops, to 1e-6 or to the digits of bf16."""
    z = batch(0)
    for dtype in (torch.float64, torch.float32):
        leaf = z.to(dtype, copy=True).requires_grad_()
        naive_leaf = leaf.detach().double().requires_grad_()
        value, naive = loss(leaf), naive_loss(naive_leaf, weight, temperature)
        torch.testing.assert_close(value.double(), naive, atol=1e-6, rtol=1e-6)
        (gradient,) = torch.autograd.grad(value, leaf, allow_unused=False)
        (expected,) = torch.autograd.grad(naive, naive_leaf, allow_unused=True)
        expected = torch.zeros_like(naive_leaf) if expected is None else expected
        torch.testing.assert_close(gradient.double(), expected, atol=1e-6, rtol=1e-6)
    bf16_leaf = z.bfloat16().requires_grad_()
    value = loss(bf16_leaf)
    (gradient,) = torch.autograd.grad(value, bf16_leaf)
    assert torch.isfinite(gradient).all()
    exact = float(naive_loss(z.bfloat16().double(), weight, temperature))
    assert abs(float(value.detach()) - exact) < 1e-3 * max(1.0, abs(exact))


def batch(seed: int, n: int = 14, d: int = 6) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same(a: int, b: int) -> bool:
    return POLYP[a] == POLYP[b]


def decayed_weight(a: int, b: int) -> float:
    return same(a, b) * math.exp(-0.7 * abs(TIME[a] - TIME[b]))


def views_of(z: torch.Tensor) -> Views:
    """A view for each row of z, with the labels above."""
    bag, polyp, procedure = map(torch.tensor, (BAG, POLYP, PROCEDURE))
    return Views(z, z, bag, bag, polyp, procedure, torch.tensor(TIME, dtype=torch.float64))


def test_losses_equal_naive_loops() -> None:
    weights = torch.rand(14, 14, generator=torch.Generator().manual_seed(0)).double()
    weights[3] = 0.0  # a row without a match
    weights[:, 5] *= 1e3
    assert_same_loss(
        lambda z: soft_target_loss(z, weights, 0.3), lambda a, b: float(weights[a, b]), 0.3
    )
    losses: list[tuple[AnyLoss, Weight]] = [
        (SupervisedLoss(temperature=0.3), same),
        (TemporallyAwareLoss(temperature=0.3, decay=0.7), decayed_weight),
        (
            IntraInterLoss(temperature=0.3, decay=0.7, gamma=0.4),
            lambda a, b: decayed_weight(a, b) + 0.4 * (PROCEDURE[a] == PROCEDURE[b]),
        ),
        (NtXentLoss(temperature=0.3), lambda a, b: BAG[a] == BAG[b]),
    ]
    assert {type(loss) for loss, _ in losses} == set(KINDS) - OTHER_LOSSES
    for loss, weight in losses:
        assert_same_loss(lambda z, loss=loss: loss(views_of(z)), weight, 0.3)  # type: ignore[misc]


def test_masked_logsumexp_equals_a_loop_and_an_empty_row_is_finite() -> None:
    logits = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(6, 9, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[:, 0] = True
    actual = masked_logsumexp(logits, mask)
    for i in range(6):
        naive = math.log(sum(math.exp(logits[i, j]) for j in range(9) if mask[i, j]))
        assert math.isclose(actual[i].item(), naive, rel_tol=1e-12)
    huge = torch.full((2, 3), 1e4, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    mean_over(masked_logsumexp(huge, mask), mask.any(dim=1)).backward()  # type: ignore[no-untyped-call]
    assert huge.grad is not None
    assert torch.isfinite(huge.grad).all()
    assert (huge.grad[1] == 0).all()
    assert mean_over(torch.tensor([1.0, 2.0]), torch.tensor([False, False])) == 0


def test_cosines_are_float64_also_under_autocast() -> None:
    a = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    expected = cosine_logits(a, a, 0.07)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        autocast = cosine_logits(a, a, 0.07)
    assert autocast.dtype == torch.float64
    assert torch.equal(autocast, expected)
    assert torch.allclose(expected.diagonal(), torch.full((4,), 1 / 0.07, dtype=torch.float64))


def test_a_batch_without_matches_has_zero_loss_and_gradient() -> None:
    z = batch(1).requires_grad_()
    loss = soft_target_loss(z, torch.eye(14).double(), 0.25)
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss.item() == 0
    assert torch.equal(gradient, torch.zeros_like(gradient))
    assert soft_target_loss(batch(0, n=1), torch.ones(1, 1).double(), 0.25).item() == 0


def test_unknown_views_match_no_other_view() -> None:
    is_known = torch.tensor([True, False, True, False, True])
    polyp = identities(torch.tensor([0, 7, 0, 7, 3]), is_known)
    assert polyp[is_known].tolist() == [0, 0, 3]
    assert equal_codes(polyp).sum() == 5 + 2  # each view itself, and the one pair twice


ALL_LOSSES = [kind() for kind in KINDS] + [NoiseAwareLoss(form="anchored", within=1.0)]


def views(
    seed: int = 0,
    *,
    polyp: list[int] | None = None,
    bag: list[int] | None = None,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Views:
    """Four bags of two views of three frames, by default of three polyps in two procedures."""
    generator = torch.Generator().manual_seed(seed)
    bags = torch.tensor(bag or [0, 0, 1, 1, 2, 2, 3, 3])
    anchor = torch.ones(8, dtype=torch.bool)
    anchor[1:] = bags[1:] != bags[:-1]
    return Views(
        tracklets=(scale * torch.randn(8, 6, generator=generator)).to(dtype).requires_grad_(),
        frames=(scale * torch.randn(24, 6, generator=generator)).to(dtype).requires_grad_(),
        bag=bags,
        anchor=anchor,
        polyp=torch.tensor(polyp or [0, 0, 1, 1, 1, 1, 2, 2]),
        procedure=torch.tensor([0, 0, 0, 0, 0, 0, 1, 1]),
        position=torch.linspace(0, 1, 8),
    )


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=lambda loss: loss.kind)
@pytest.mark.parametrize(
    "arguments",
    [
        {"polyp": [0] * 8, "bag": [0] * 8},  # one class
        {"polyp": list(range(8)), "bag": list(range(8))},  # no positive
        {"scale": 1e4},
        {"scale": 0.0},  # zero vectors
        {"dtype": torch.bfloat16},
    ],
    ids=["one class", "no positive", "huge", "zero", "bf16"],
)
def test_extreme_batches_give_finite_values_and_gradients(
    loss: NoiseAwareLoss,
    arguments: dict,  # type: ignore[type-arg]
) -> None:
    v = views(**arguments)
    value = loss(v)
    gradients = torch.autograd.grad(value, [v.tracklets, v.frames], allow_unused=True)
    assert torch.isfinite(value)
    assert all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=lambda loss: loss.kind)
def test_losses_of_bf16_embeddings_equal_those_in_float64(loss: NoiseAwareLoss) -> None:
    low = views(dtype=torch.bfloat16)
    high = Views(
        **{**vars(low), "tracklets": low.tracklets.double(), "frames": low.frames.double()}
    )
    assert loss(low).item() == pytest.approx(loss(high).item(), rel=1e-4)


def test_in_batch_accuracy_equals_a_loop() -> None:
    z, bag = batch(7), torch.tensor(POLYP)
    actual = tuple(in_batch_accuracy(z, bag, k) for k in (1, 5))
    hits: dict[int, list[bool]] = {1: [], 5: []}
    for a in range(14):
        others = [b for b in range(14) if b != a]
        if not any(same(a, b) for b in others):
            continue
        nearest = sorted(others, key=lambda b: -float(torch.cosine_similarity(z[a], z[b], 0)))
        for k, hits_at_k in hits.items():
            hits_at_k.append(any(same(a, b) for b in nearest[:k]))
    assert actual == tuple(sum(hits_at_k) / len(hits_at_k) for hits_at_k in hits.values())
    assert all(math.isnan(in_batch_accuracy(z, torch.arange(14), k)) for k in (1, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_built_in_losses_pass_the_check_for_those_of_others(kind: Any) -> None:
    check_loss(kind())


def test_check_loss_names_the_batch_that_a_loss_cannot_take() -> None:
    @dataclass(frozen=True)
    class Nearness:
        kind: Literal["nearness"] = "nearness"

        def __call__(self, views: Views) -> torch.Tensor:
            same = (views.bag[:, None] == views.bag).fill_diagonal_(False)
            return torch.cdist(views.tracklets, views.tracklets)[same].mean()

    with pytest.raises(AssertionError, match="is not finite without positives"):
        check_loss(Nearness())
    with pytest.raises(AssertionError, match=r"Nearness'> is a class: give an instance"):
        check_loss(Nearness)
