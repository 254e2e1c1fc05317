import math

import numpy as np
import torch

from polyplink.simulate.picture.patient import (
    FINE_TEXELS,
    REPEATS,
    TEXELS,
    bubbles,
    draw_patient,
    read_mucosa,
    read_tile,
)

PATIENT = draw_patient(np.random.default_rng(0))


def test_mucosa_meets_itself_at_the_seams() -> None:
    assert PATIENT.coarse.shape == (5, TEXELS + 1, TEXELS + 1)
    assert PATIENT.fine.shape == (3, FINE_TEXELS + 1, FINE_TEXELS + 1)
    for texture in (PATIENT.coarse, PATIENT.fine):
        assert torch.equal(texture[:, 0], texture[:, -1])
        assert torch.equal(texture[:, :, 0], texture[:, :, -1])
        assert torch.isfinite(texture).all()


def test_the_mean_colour_is_about_that_of_the_wall() -> None:
    mean = PATIENT.coarse[:3].mean(dim=(1, 2))
    np.testing.assert_allclose(mean, PATIENT.wall, rtol=0.2)
    assert PATIENT.coarse[:3].min() > 0
    assert abs(float(PATIENT.fine[0].mean())) < 1e-3


def test_reading_wraps_and_hits_texels() -> None:
    row, column, last = 17, 250, TEXELS
    across = torch.tensor([column / last, column / last - 1])
    along = torch.tensor([row / last, row / last + 2])
    values = read_tile(PATIENT.coarse, across, along)
    np.testing.assert_allclose(values[:, 0], PATIENT.coarse[:, row, column], atol=5e-3)
    np.testing.assert_allclose(values[:, 1], values[:, 0], atol=5e-3)


def test_the_fine_texture_repeats_and_fades_with_distance() -> None:
    turn = torch.tensor([0.3, 0.3 + 2 * math.pi / REPEATS, 0.3])
    z = torch.tensor([0.7, 0.7, 0.7])
    _, fine = read_mucosa(PATIENT, turn, z, torch.tensor([1e-4, 1e-4, 1.0]))
    np.testing.assert_allclose(fine[:, 0], fine[:, 1], atol=1e-3)
    assert fine[:, 0].abs().max() > 1e-3
    assert fine[:, 2].abs().max() < 1e-3


def test_mucosa_is_red_and_polyps_redder() -> None:
    patients = [draw_patient(np.random.default_rng(seed)) for seed in range(6)]
    assert all(p.wall[0] > p.wall[1] > p.wall[2] * 0.8 for p in patients)
    redness = [float(p.tissue[0] / p.tissue[1] - p.wall[0] / p.wall[1]) for p in patients]
    assert np.mean(redness) > 0.1


def test_a_worse_prepared_bowel_is_yellower() -> None:
    def yellow(bbps: float) -> float:
        _, green, blue, *_ = draw_patient(np.random.default_rng(3), bbps).coarse
        return float((green - blue).mean())

    assert yellow(4.0) > yellow(9.0) + 0.005


def test_bubbles_come_with_residue_and_lie_anywhere_on_the_tile() -> None:
    assert not bubbles(np.random.default_rng(0), 64, 0.0).any()
    many = bubbles(np.random.default_rng(0), 64, 1.0)
    assert many.shape == (3, 64, 64)
    assert np.abs(many).max() <= 1
    assert many[0].mean() > 0.01
