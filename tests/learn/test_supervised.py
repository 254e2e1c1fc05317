import pytest
import torch

from polyplink.learn.noise_aware import anchored_noise_aware
from polyplink.learn.supervised import same_polyp, supervised
from tests.learn.naive import assert_same_loss, batch

POLYP = [0, 0, 0, 4, 4, 7, 9, 9, 9, 9, 2, 2, 5, 5]  # 7 is alone


@pytest.mark.parametrize("seed", range(3))
def test_it_equals_the_loops(seed: int) -> None:
    polyp = torch.tensor(POLYP)
    assert_same_loss(
        batch(seed),
        lambda z: supervised(z, polyp, 0.25),
        lambda a, b: float(POLYP[a] == POLYP[b]),
        0.25,
    )


def test_one_class_and_no_pairs_are_no_nan() -> None:
    z = batch(0)
    assert torch.isfinite(supervised(z, torch.zeros(14, dtype=torch.long), 0.25))
    assert supervised(z, torch.arange(14), 0.25).item() == 0


def test_names_of_polyps_do_not_matter() -> None:
    z, polyp = batch(3), torch.tensor(POLYP)
    assert supervised(z, polyp, 0.25) == supervised(z, 10 - polyp, 0.25)
    assert same_polyp(polyp).sum() == sum(POLYP.count(p) for p in POLYP)


def test_a_wrong_match_keeps_pulling_where_the_noise_aware_loss_lets_go() -> None:
    # Three aligned views and one that truly is another polyp, all in one bag.
    z = torch.eye(6, dtype=torch.float64)[[0, 0, 0, 1, 3, 4]] + 0.01 * batch(5, n=6)
    z.requires_grad_()
    bag = torch.tensor([0, 0, 0, 0, 1, 1])
    (pull,) = torch.autograd.grad(supervised(z, bag, 0.07), z)
    (slack,) = torch.autograd.grad(anchored_noise_aware(z, bag, torch.arange(6) % 4 == 0, 0.07), z)
    assert pull[3].norm() > 0.5
    assert slack[3].norm() < 0.01 * pull[3].norm()
