import numpy as np
import pytest
import torch

from polyplink.simulate.picture.grain import STRENGTH, draw_grain, read_grain
from polyplink.simulate.picture.window import Windows

GRAIN = draw_grain(np.random.default_rng(0))
FRAME = (100, 80)


def whole(n: int, size: tuple[int, int] = FRAME) -> Windows:
    return Windows(torch.tensor([[0.0, 0.0, 100.0, 80.0]]).repeat(n, 1), FRAME, size)


def test_grain_is_that_of_the_frame_whatever_it_is_drawn_with() -> None:
    together = read_grain(GRAIN, np.array([3, 900, 2_000_000]), whole(3))
    alone = read_grain(GRAIN, np.array([2_000_000]), whole(1))
    assert torch.equal(together[2:], alone)
    assert together.std().item() == pytest.approx(STRENGTH, rel=0.05)
    assert abs(np.corrcoef(together[0].ravel(), together[1].ravel())[0, 1]) < 0.05


def test_a_window_at_full_size_has_the_grain_of_its_frame() -> None:
    part = Windows(torch.tensor([[20.0, 30.0, 60.0, 50.0]]), FRAME, (40, 20))
    expected = read_grain(GRAIN, np.array([7]), whole(1))[:, 30:50, 20:60]
    assert torch.equal(read_grain(GRAIN, np.array([7]), part), expected)


def test_a_smaller_picture_has_less_grain() -> None:
    small = read_grain(GRAIN, np.array([7]), whole(1, (50, 40)))
    assert small.std().item() == pytest.approx(STRENGTH / 2, rel=0.1)
