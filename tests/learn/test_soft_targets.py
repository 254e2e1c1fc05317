import pytest
import torch

from polyplink.learn.soft_targets import others_of, soft_target_loss
from tests.learn.naive import assert_same_loss, batch


@pytest.mark.parametrize("seed", range(4))
def test_any_target_equals_the_loops(seed: int) -> None:
    weights = torch.rand(14, 14, generator=torch.Generator().manual_seed(seed)).double()
    weights[3] = 0.0  # a row without a match
    weights[:, 5] *= 1e3
    assert_same_loss(
        batch(seed),
        lambda z: soft_target_loss(z, weights, 0.25),
        lambda a, b: float(weights[a, b]),
        0.25,
    )


def test_the_scale_of_a_row_and_the_diagonal_do_not_count() -> None:
    z, weights = batch(0), torch.rand(14, 14).double()
    plain = soft_target_loss(z, weights, 0.25)
    scaled = weights * torch.rand(14, 1).double().add(0.1)
    torch.testing.assert_close(soft_target_loss(z, scaled, 0.25), plain)
    torch.testing.assert_close(soft_target_loss(z, weights.fill_diagonal_(9.0), 0.25), plain)


def test_no_match_at_all_is_zero_with_a_zero_gradient() -> None:
    z = batch(1).requires_grad_()
    loss = soft_target_loss(z, torch.eye(14).double(), 0.25)
    (slope,) = torch.autograd.grad(loss, z)
    assert loss.item() == 0
    assert torch.equal(slope, torch.zeros_like(slope))


def test_huge_logits_and_a_lone_sample_are_finite() -> None:
    z = batch(2).requires_grad_()
    loss = soft_target_loss(z, torch.ones(14, 14).double(), 1e-6)
    (slope,) = torch.autograd.grad(loss, z)
    assert torch.isfinite(loss)
    assert torch.isfinite(slope).all()
    assert soft_target_loss(batch(0, n=1), torch.ones(1, 1).double(), 0.25).item() == 0


def test_others_leave_the_row_itself_out() -> None:
    assert others_of(3, torch.device("cpu")).tolist() == [
        [False, True, True],
        [True, False, True],
        [True, True, False],
    ]
