import math

import numpy as np
import pytest
import torch

from polyplink.simulate.picture.march import FAR, camera_rays, march
from polyplink.simulate.picture.scene import lump_distance, wall_distance
from polyplink.simulate.picture.shade import (
    LIGHT_CORE,
    SCATTER,
    SHINE,
    SOFTNESS,
    TARGET,
    develop,
    lens_mask,
    light,
    polyp_pixels,
    render,
    surface_colour,
)
from tests.simulate.scenes import shots_at, small_scene

CPU = torch.device("cpu")
WIDTH, HEIGHT = 32, 28
PATIENT, SKIN = small_scene()
RAYS, MASK = camera_rays(WIDTH, HEIGHT, CPU), lens_mask(WIDTH, HEIGHT, CPU)


def test_light_is_the_naive_one() -> None:
    rng = np.random.default_rng(0)
    colour = torch.from_numpy(rng.uniform(0, 1, (3, 20)))
    normal, rays = (torch.from_numpy(rng.normal(size=(3, 20))) for _ in range(2))
    normal, rays = normal / normal.norm(dim=0), rays / rays.norm(dim=0)
    depth = torch.from_numpy(rng.uniform(0.1, 5, 20))
    result = light(PATIENT, colour, normal, rays, depth)
    for pixel in range(20):
        facing = max(0.0, -sum(float(normal[i, pixel] * rays[i, pixel]) for i in range(3)))
        d = float(depth[pixel])
        for channel in range(3):
            body = float(colour[channel, pixel])
            diffuse = body * (SCATTER[channel] + (1 - SCATTER[channel]) * facing)
            shine = 0.9 * PATIENT.wetness * facing**SHINE
            expected = (diffuse + shine) / (d * d + LIGHT_CORE) * (FAR - d) / FAR
            assert float(result[channel, pixel]) == pytest.approx(expected, rel=1e-5)


def test_develop_is_the_naive_one() -> None:
    linear = torch.from_numpy(np.random.default_rng(0).uniform(0, 9, (3, 2, 6, 8)))
    exposures, whites = torch.tensor([1.0, 0.5]), torch.tensor([[1.0, 1, 1], [1.1, 1, 0.9]])
    mask = torch.rand(6, 8, generator=torch.Generator().manual_seed(0))
    result = develop(linear, exposures, whites, mask)
    assert result.shape == (2, 6, 8, 3)
    for s in range(2):
        brightest = [[max(linear[:, s, y, x].tolist()) for x in range(8)] for y in range(6)]
        root = np.mean(np.sqrt(brightest))
        gain = float(exposures[s]) * (TARGET / root) ** 2
        for c in range(3):
            scaled = linear[c, s].numpy() * gain * float(whites[s, c])
            toned = np.sqrt(1 - np.exp(-2.2 * scaled))
            for y in range(6):
                for x in range(8):
                    around = toned[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2].mean()
                    soft = (1 - SOFTNESS) * toned[y, x] + SOFTNESS * around
                    expected = soft * float(mask[y, x])
                    assert float(result[s, y, x, c]) == pytest.approx(expected, rel=1e-4)


def test_exposure_does_not_care_how_bright_the_scene_is() -> None:
    linear = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    one, mask = torch.ones(1), torch.ones(8, 8)
    dim = develop(0.1 * linear, one, torch.ones(1, 3), mask)
    assert torch.allclose(dim, develop(linear, one, torch.ones(1, 3), mask), atol=1e-5)
    assert develop(linear, 2 * one, torch.ones(1, 3), mask).mean() > dim.mean()


def test_the_lens_darkens_outwards_and_cuts_corners() -> None:
    mask = lens_mask(64, 56, CPU)
    assert mask[28, 32] > 0.99
    assert mask[28, 2] < mask[28, 20]
    assert mask[0, 0] == 0
    assert torch.allclose(mask, mask.flip(0).flip(1), atol=1e-6)


def test_pixels_belong_to_whom_a_naive_loop_finds() -> None:
    shots = shots_at(PATIENT, SKIN)
    depth, rays = march(PATIENT.colon, [SKIN.lump], shots.origins, shots.rotations, RAYS)
    _, which = render(PATIENT, [SKIN], shots, RAYS, MASK)
    points = rays.at(depth)
    for row in range(HEIGHT):
        for column in range(WIDTH):
            point = points[:, row * WIDTH + column, None]
            lump, wall = lump_distance(SKIN.lump, point), wall_distance(PATIENT.colon, point)
            if abs(float(lump - wall)) < 1e-5:
                continue  # on the very joint, rounding decides
            expected = 0 if float(lump) < float(wall) and MASK[row, column] > 0.3 else -1
            assert int(which[0, row, column]) == expected


def test_an_image_is_bright_on_the_wall_and_shows_the_polyp_only_when_looked_at() -> None:
    seen, which = render(PATIENT, [SKIN], shots_at(PATIENT, SKIN), RAYS, MASK)
    assert seen.shape == (1, HEIGHT, WIDTH, 3)
    assert seen.min() >= 0
    assert seen.max() <= 1
    assert 0.2 < seen.mean() < 0.7
    assert (which == 0).sum() > 20
    _, which = render(PATIENT, [SKIN], shots_at(PATIENT, SKIN, away=True), RAYS, MASK)
    assert (which == -1).all()


def test_frames_do_not_depend_on_those_beside_them() -> None:
    shots = shots_at(PATIENT, SKIN, frames=3)
    together, _ = render(PATIENT, [SKIN], shots, RAYS, MASK)
    for frame in range(3):
        alone, _ = render(PATIENT, [SKIN], shots.part(frame, frame + 1), RAYS, MASK)
        assert torch.allclose(together[frame], alone[0], atol=1e-4)


def test_a_scene_without_polyps_renders() -> None:
    images, which = render(PATIENT, [], shots_at(PATIENT, SKIN), RAYS, MASK)
    assert torch.isfinite(images).all()
    assert (which == -1).all()


def test_polyp_pixels_name_the_largest_share() -> None:
    shares = torch.tensor([[0.9, 0.2, 0.6, 0.6], [0.1, 0.3, 0.8, 0.8]])
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    which = polyp_pixels(shares, torch.tensor([1.0, 1, 1, 1]), mask)
    assert which.tolist() == [[[0, -1], [1, -1]]]
    far = polyp_pixels(shares, torch.full((4,), FAR), mask)
    assert (far == -1).all()


def test_wall_and_polyp_have_their_own_colours() -> None:
    points = SKIN.lump.centre[:, None].repeat(1, 2)
    shares = torch.tensor([[0.0, 1.0]])
    pixel = torch.full((2,), 1e-3)
    colour, relief = surface_colour(PATIENT, [SKIN], points, shares, pixel)
    assert relief.shape == (2, 2)
    bare, _ = surface_colour(PATIENT, [], points, shares[:0], pixel)
    assert torch.equal(colour[:, 0], bare[:, 0])
    assert not torch.allclose(colour[:, 1], bare[:, 1], atol=1e-3)
    assert math.isfinite(float(colour.sum()))
