"""Shading: mucosa of a patient, wounds, light and exposure."""

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch
from scipy.ndimage import correlate1d

from polyplink_lab.simulate.colon.surface import SurfaceSample
from polyplink_lab.simulate.picture import shading
from polyplink_lab.simulate.picture.rays import FAR
from tests.simulate.scenes import LUMPS, batch, points


@functools.cache
def patient() -> shading.Patient:
    return shading.draw_patient(np.random.default_rng(0))


@functools.cache
def sample() -> SurfaceSample:
    return batch().sample(points(), torch.arange(2)[:, None])


PIXEL = torch.full((2, 120), 0.004)


def unit(rng: np.random.Generator) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(3, 20))), dim=0)


def test_light_equals_a_naive_loop() -> None:
    rng = np.random.default_rng(0)
    colour = torch.from_numpy(rng.uniform(0, 1, (3, 20)))
    normal = unit(rng)
    rays = -normal + 0.05 * unit(rng)
    rays = rays / rays.norm(dim=0)
    depth = torch.from_numpy(rng.uniform(0.1, 5, 20))
    result = shading.light(patient(), colour, normal, rays, depth)
    for pixel in range(20):
        facing = max(0.0, -sum(float(normal[i, pixel] * rays[i, pixel]) for i in range(3)))
        d = float(depth[pixel])
        for channel in range(3):
            body = float(colour[channel, pixel])
            diffuse = body * (shading.SCATTER[channel] + (1 - shading.SCATTER[channel]) * facing)
            shine = shading.SHINE_STRENGTH * patient().wetness * facing**shading.SHINE
            expected = (diffuse + shine) / (d * d + shading.LIGHT_CORE) * (FAR - d) / FAR
            assert float(result[channel, pixel]) == pytest.approx(expected, rel=1e-5)


def test_wall_and_polyps_have_their_separate_colours() -> None:
    colour, relief = shading.surface_colour(patient(), sample(), [], PIXEL)
    wall_colour, _ = shading.surface_colour(
        patient(), dataclasses.replace(sample(), shares=(), colours=()), [], PIXEL
    )
    assert relief.shape == (2, *PIXEL.shape)
    shares = torch.stack(sample().shares)
    wall = (shares == 0).all(0)
    assert torch.equal(colour[:, wall], wall_colour[:, wall])
    only_first_polyp = (shares[0] == 1) & (shares[1] == 0)
    assert only_first_polyp.any()
    ratio = (
        colour[:, only_first_polyp] / sample().colours[0][:, only_first_polyp]
    )  # the fine texture scales all channels equally
    assert ((ratio - ratio[:1]).abs() < 1e-3).all()


def test_a_wound_is_visible_from_its_frame_on() -> None:
    scar = shading.Scar(LUMPS[0].centre, 0.3, 10, 0.5, 20.0, torch.zeros(3))
    without, _ = shading.surface_colour(patient(), sample(), [], PIXEL)
    before, after = (
        shading.surface_colour(patient(), sample(), [(scar, torch.full((2, 1), age))], PIXEL)[0]
        for age in (-1.0, 1.0)
    )
    assert torch.equal(before, without)
    distance = (sample().material - LUMPS[0].centre[:, None, None]).norm(dim=0)
    changed = (after - without).abs().amax(0) > 1e-2
    assert changed[distance < 0.2].all()
    assert not changed[distance > shading.WOUND_REACH * scar.radius].any()


def test_normals_have_unit_length_and_follow_the_relief() -> None:
    flat = shading.normals(sample(), torch.zeros(2, *PIXEL.shape))
    unit_slope = sample().slope / sample().slope.norm(dim=0)
    torch.testing.assert_close(flat, unit_slope, atol=1e-5, rtol=0)
    leaning = shading.normals(
        sample(), torch.stack([torch.zeros_like(PIXEL), torch.full_like(PIXEL, 0.3)])
    )
    torch.testing.assert_close(leaning.norm(dim=0), torch.ones_like(PIXEL), atol=1e-5, rtol=0)
    assert ((leaning - flat)[2] >= -1e-5).all()
    c, s = sample().turn
    around = shading.normals(
        sample(), torch.stack([torch.full_like(PIXEL, 0.3), torch.zeros_like(PIXEL)])
    )
    assert ((-around[0] * s + around[1] * c) > (-flat[0] * s + flat[1] * c) - 1e-5).all()
    assert math.isfinite(float(around.sum()))


LINEAR = torch.from_numpy(np.random.default_rng(0).uniform(0, 9, (3, 2, 6, 8)))


def test_automatic_gains_bring_frames_to_the_target() -> None:
    gains = shading.automatic_gains(LINEAR.flatten(2))
    for s in range(2):
        roots = [math.sqrt(max(pixel)) for pixel in LINEAR[:, s].flatten(1).T.tolist()]
        assert gains[s].item() == pytest.approx((shading.TARGET / np.mean(roots)) ** 2)


def test_develop_equals_a_naive_loop() -> None:
    gains, whites = torch.tensor([1.0, 0.5]), torch.tensor([[1.0, 1, 1], [1.1, 1, 0.9]])
    result = shading.develop(LINEAR.clone(), gains, whites)
    for s in range(2):
        for c in range(3):
            scaled = LINEAR[c, s].numpy() * float(gains[s]) * float(whites[s, c])
            toned = np.sqrt(1 - np.exp(-shading.CONTRAST * scaled))
            for axis in (0, 1):
                kernel = [shading.SOFTNESS, 1 - 2 * shading.SOFTNESS, shading.SOFTNESS]
                toned = correlate1d(toned, kernel, axis, mode="nearest")
            np.testing.assert_allclose(result[c, s], toned, rtol=1e-5)


def test_textures_tile_and_equal_their_texels() -> None:
    row, column, last = 17, 250, shading.TEXELS
    across = torch.tensor([column / last, column / last - 1])
    along = torch.tensor([row / last, row / last + 2])
    for texture in (patient().coarse, patient().fine):
        assert torch.equal(texture[:, 0], texture[:, -1])
        assert torch.equal(texture[:, :, 0], texture[:, :, -1])
    values = shading.read_tile(patient().coarse, across, along)
    np.testing.assert_allclose(values[:, 0], patient().coarse[:, row, column], atol=5e-3)
    np.testing.assert_allclose(values[:, 1], values[:, 0], atol=5e-3)


def test_mucosa_is_red_and_yellower_in_a_less_clean_bowel() -> None:
    clean, less_clean = (
        shading.draw_patient(np.random.default_rng(3), bbps) for bbps in (9.0, 4.0)
    )
    for p in (patient(), clean, less_clean):
        assert p.wall[0] > p.wall[1] > p.wall[2] * 0.8
    np.testing.assert_allclose(patient().coarse[:3].mean(dim=(1, 2)), patient().wall, rtol=0.2)
    yellow = [float((p.coarse[1] - p.coarse[2]).mean()) for p in (clean, less_clean)]
    assert yellow[1] > yellow[0] + 0.005
