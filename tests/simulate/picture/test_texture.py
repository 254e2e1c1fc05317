import math

import numpy as np
import pytest
import torch

from polyplink.simulate.picture.texture import (
    MUCOSA_TEXELS,
    mucosa,
    periodic_noise,
    read_mucosa,
    vessel_net,
)


def test_noise_tiles_and_is_normal() -> None:
    noise = periodic_noise(np.random.default_rng(0), 64, 5.0)
    assert noise.mean() == pytest.approx(0, abs=1e-5)
    assert noise.std() == pytest.approx(1, abs=1e-4)
    inner = np.abs(np.diff(noise, axis=0)).mean()
    assert np.abs(noise[0] - noise[-1]).mean() < 2 * inner


def test_noise_has_the_waves_that_were_asked_for() -> None:
    noise = periodic_noise(np.random.default_rng(0), 64, 8.0, spread=0.2)
    power = np.abs(np.fft.fft2(noise)) ** 2
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(64, 1 / 64), np.fft.fftfreq(64, 1 / 64)))
    assert (power * frequency).sum() / power.sum() == pytest.approx(8, rel=0.15)


def test_more_density_gives_more_vessels() -> None:
    few, many = (vessel_net(np.random.default_rng(0), 128, density) for density in (-0.4, 0.7))
    assert few.min() >= 0
    assert many.max() <= 1
    assert many.mean() > 1.3 * few.mean()


def test_mucosa_meets_itself_at_the_seam() -> None:
    texture = mucosa(np.random.default_rng(0), 0.2, 50)
    assert texture.shape == (4, MUCOSA_TEXELS + 1, MUCOSA_TEXELS + 1)
    assert torch.equal(texture[:, 0], texture[:, -1])
    assert torch.equal(texture[:, :, 0], texture[:, :, -1])


def test_reading_wraps_and_hits_texels() -> None:
    texture = mucosa(np.random.default_rng(0), 0.2, 50)
    row, column = 17, 250
    step = 2 * math.pi / MUCOSA_TEXELS
    turn = torch.tensor([column * step, column * step - 2 * math.pi])
    z = torch.tensor([row * step, row * step + 4 * math.pi])
    values = read_mucosa(texture, turn, z)
    np.testing.assert_allclose(values[:, 0], texture[:, row, column], atol=5e-3)
    np.testing.assert_allclose(values[:, 1], values[:, 0], atol=5e-3)
