import numpy as np
import pytest

from polyplink.simulate.colon.texture import (
    bubble_stamp,
    bubbles,
    periodic_noise,
    residue_film,
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


def test_more_residue_where_the_bowel_is_worse_prepared() -> None:
    none, some, much = (
        residue_film(np.random.default_rng(0), 128, amount).mean() for amount in (0.0, 0.4, 1.0)
    )
    assert none < 0.02 < much
    assert none < some < much
    film = residue_film(np.random.default_rng(0), 128, 1.0)
    assert film.min() >= 0
    assert film.max() <= 1


def test_a_bubble_has_a_bright_rim_around_a_dome() -> None:
    rim, slope_y, slope_x = bubble_stamp(4.0)
    middle = len(rim) // 2
    assert rim[middle, middle] < 0.01
    assert rim[middle].max() > 0.6
    np.testing.assert_allclose(slope_y, slope_x.T)
    np.testing.assert_allclose(slope_x[:, ::-1], -slope_x)


def test_bubbles_come_with_residue_and_lie_anywhere_on_the_tile() -> None:
    assert not bubbles(np.random.default_rng(0), 64, 0.0).any()
    many = bubbles(np.random.default_rng(0), 64, 1.0)
    assert many.shape == (3, 64, 64)
    assert np.abs(many).max() <= 1
    assert many[0].mean() > 0.01
