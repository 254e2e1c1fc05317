import math

import pytest
import torch

from polyplink.learn.supervised import supervised
from polyplink.learn.temporally_aware import fading, temporally_aware
from tests.learn.naive import assert_same_loss, batch

POLYP = [0, 0, 0, 4, 4, 7, 9, 9, 9, 9, 2, 2, 5, 5]
POSITION = [0.0, 0.4, 1.0, 0.2, 0.2, 0.5, 0.0, 0.1, 0.7, 1.0, 0.3, 0.9, 0.0, 1.0]


@pytest.mark.parametrize("decay", [0.3, 1.0, 8.0])
def test_it_equals_the_loops(decay: float) -> None:
    polyp, position = torch.tensor(POLYP), torch.tensor(POSITION, dtype=torch.float64)

    def weight(a: int, b: int) -> float:
        return (POLYP[a] == POLYP[b]) * math.exp(-decay * abs(POSITION[a] - POSITION[b]))

    assert_same_loss(
        batch(1), lambda z: temporally_aware(z, polyp, position, 0.25, decay=decay), weight, 0.25
    )


def test_without_decay_or_with_two_views_it_is_supervised() -> None:
    polyp, position = torch.tensor(POLYP), torch.tensor(POSITION)
    z = batch(2)
    plain = supervised(z, polyp, 0.25)
    torch.testing.assert_close(temporally_aware(z, polyp, position, 0.25, decay=0.0), plain)
    pairs = torch.arange(14) // 2
    torch.testing.assert_close(
        temporally_aware(z, pairs, position, 0.25), supervised(z, pairs, 0.25)
    )
    assert temporally_aware(z, polyp, position, 0.25) != plain


def test_fading_is_one_at_no_distance() -> None:
    found = fading(torch.tensor([0.0, 1.0]), 2.0)
    torch.testing.assert_close(
        found, torch.tensor([[1.0, math.exp(-2)], [math.exp(-2), 1.0]]).double()
    )
