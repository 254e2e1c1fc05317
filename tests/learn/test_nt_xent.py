import pytest
import torch

from polyplink.learn.nt_xent import nt_xent
from tests.learn.naive import assert_same_loss, batch


@pytest.mark.parametrize("seed", range(3))
def test_it_equals_the_loops(seed: int) -> None:
    assert_same_loss(
        batch(seed),
        lambda z: nt_xent(z[:7], z[7:], 0.25),
        lambda a, b: float(a % 7 == b % 7),
        0.25,
    )


def test_views_may_change_places_but_not_partners() -> None:
    z = batch(4)
    torch.testing.assert_close(nt_xent(z[:7], z[7:], 0.07), nt_xent(z[7:], z[:7], 0.07))
    assert nt_xent(z[:7], z[:7], 0.07) < nt_xent(z[:7], z[7:], 0.07)


def test_one_pair_has_nothing_to_tell_apart() -> None:
    z = torch.randn(2, 5)
    assert nt_xent(z[:1], z[1:], 0.07).item() == pytest.approx(0.0, abs=1e-6)
