import itertools

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate.picture.blink import KINDS, blinded, draw_blinks
from polyplink.simulate.picture.veil import draw_clouds, read_clouds
from polyplink.simulate.picture.window import Windows

WALL = torch.tensor([0.86, 0.30, 0.20])


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 100))
def test_a_run_of_blinks_is_of_one_kind(blink: list[bool], seed: int) -> None:
    kinds = draw_blinks(np.random.default_rng(seed), np.array(blink, bool))
    assert (kinds >= 0).tolist() == blink
    assert kinds.max(initial=-1) < len(KINDS)
    for before, after in itertools.pairwise(kinds.tolist()):
        assert before < 0 or after < 0 or before == after


def test_runs_are_of_all_kinds() -> None:
    blink = np.arange(300) % 3 == 0
    assert set(draw_blinks(np.random.default_rng(0), blink)) == {-1, 0, 1, 2}


def test_blinks_show_clouds_in_their_own_colours() -> None:
    frame = (60, 48)
    windows = Windows(torch.tensor([[0.0, 0.0, 60.0, 48.0]]).repeat(3, 1), frame, frame)
    cloud = read_clouds(draw_clouds(np.random.default_rng(0)), windows, torch.zeros(3, 2))
    images = blinded(torch.tensor([0, 1, 2]), cloud, WALL)
    assert images.shape == (3, 3, 48, 60)
    assert images.min() >= 0
    assert images.max() <= 1
    red, slime, white = images.mean(dim=(2, 3)).T
    assert red[0] > 1.4 * red[1]
    assert slime[1] / slime[0] > red[1] / red[0]
    assert white.min() > 0.75
