import math

import pytest
import torch

from polyplink.learn.intra_inter import intra_inter
from polyplink.learn.supervised import supervised
from polyplink.learn.temporally_aware import temporally_aware
from tests.learn.naive import assert_same_loss, batch

POLYP = [0, 0, 0, 4, 4, 7, 9, 9, 9, 9, 2, 2, 5, 5]
PROCEDURE = [1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 8, 8]
TIME = [0.0, 0.4, 1.0, 0.2, 0.2, 0.5, 0.0, 0.1, 0.7, 1.0, 0.3, 0.9, 0.0, 1.0]


@pytest.mark.parametrize("gamma", [0.2, 3.0])
def test_it_equals_the_loops(gamma: float) -> None:
    polyp, procedure = torch.tensor(POLYP), torch.tensor(PROCEDURE)
    time = torch.tensor(TIME, dtype=torch.float64)

    def weight(a: int, b: int) -> float:
        near = (POLYP[a] == POLYP[b]) * math.exp(-0.7 * abs(TIME[a] - TIME[b]))
        return near + gamma * (PROCEDURE[a] == PROCEDURE[b])

    assert_same_loss(
        batch(1),
        lambda z: intra_inter(z, polyp, procedure, time, 0.25, decay=0.7, gamma=gamma),
        weight,
        0.25,
    )


def test_gamma_0_and_decay_0_give_the_simpler_losses() -> None:
    polyp, procedure, time = (torch.tensor(v) for v in (POLYP, PROCEDURE, TIME))
    z = batch(2)
    torch.testing.assert_close(
        intra_inter(z, polyp, procedure, time, 0.25, gamma=0.0),
        temporally_aware(z, polyp, time, 0.25),
    )
    torch.testing.assert_close(
        intra_inter(z, polyp, procedure, time, 0.25, gamma=0.0, decay=0.0),
        supervised(z, polyp, 0.25),
    )
