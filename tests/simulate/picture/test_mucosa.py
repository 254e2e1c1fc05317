import math

import numpy as np
import torch

from polyplink.simulate.picture.mucosa import (
    FINE_TEXELS,
    REPEATS,
    TEXELS,
    Mucosa,
    Wall,
    draw_mucosa,
    read_mucosa,
    read_tile,
)

COLOUR = (0.8, 0.3, 0.2)
MUCOSA = draw_mucosa(
    np.random.default_rng(0), Wall(COLOUR, (0.7, 0.4, 0.45), density=0.2, grain=50, residue=0.1)
)


def test_mucosa_meets_itself_at_the_seams() -> None:
    assert MUCOSA.coarse.shape == (5, TEXELS + 1, TEXELS + 1)
    assert MUCOSA.fine.shape == (3, FINE_TEXELS + 1, FINE_TEXELS + 1)
    for texture in (MUCOSA.coarse, MUCOSA.fine):
        assert torch.equal(texture[:, 0], texture[:, -1])
        assert torch.equal(texture[:, :, 0], texture[:, :, -1])
        assert torch.isfinite(texture).all()


def test_the_mean_colour_is_about_that_of_the_wall() -> None:
    mean = MUCOSA.coarse[:3].mean(dim=(1, 2))
    np.testing.assert_allclose(mean, COLOUR, rtol=0.2)
    assert MUCOSA.coarse[:3].min() > 0
    assert abs(float(MUCOSA.fine[0].mean())) < 1e-3


def test_reading_wraps_and_hits_texels() -> None:
    row, column, last = 17, 250, TEXELS
    across = torch.tensor([column / last, column / last - 1])
    along = torch.tensor([row / last, row / last + 2])
    values = read_tile(MUCOSA.coarse, across, along)
    np.testing.assert_allclose(values[:, 0], MUCOSA.coarse[:, row, column], atol=5e-3)
    np.testing.assert_allclose(values[:, 1], values[:, 0], atol=5e-3)


def test_the_fine_texture_repeats_and_fades_with_distance() -> None:
    turn = torch.tensor([0.3, 0.3 + 2 * math.pi / REPEATS, 0.3])
    z = torch.tensor([0.7, 0.7, 0.7])
    _, fine = read_mucosa(MUCOSA, turn, z, torch.tensor([1e-4, 1e-4, 1.0]))
    np.testing.assert_allclose(fine[:, 0], fine[:, 1], atol=1e-3)
    assert fine[:, 0].abs().max() > 1e-3
    assert fine[:, 2].abs().max() < 1e-3


def test_moving_to_a_device_changes_nothing() -> None:
    moved = MUCOSA.to(torch.device("cpu"))
    assert isinstance(moved, Mucosa)
    assert torch.equal(moved.coarse, MUCOSA.coarse)
