"""The one-cycle policy against torch's."""

import pytest
import torch

from polyplink.learn.schedule import one_cycle


@pytest.mark.parametrize("warm_up", [0.1, 0.3])
def test_it_is_torchs(warm_up: float) -> None:
    steps, top = 101, 2.0  # torch counts its phases in steps - 1
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, top, total_steps=steps, pct_start=warm_up, cycle_momentum=False
    )
    # Its rise ends at warm_up * steps - 1; ours at warm_up of the way.
    peak = warm_up * steps - 1
    for step in range(steps):
        at = warm_up * step / peak if step < peak else None
        at = at if at is not None else warm_up + (1 - warm_up) * (step - peak) / (steps - 1 - peak)
        assert top * one_cycle(min(at, 1.0), warm_up) == pytest.approx(
            theirs.get_last_lr()[0], rel=1e-6, abs=1e-9
        )
        optimizer.step()
        theirs.step() if step < steps - 1 else None
