import dataclasses
import math

import numpy as np
import pytest
import torch

from polyplink.simulate.picture.light import (
    LIGHT_CORE,
    SCATTER,
    SHINE,
    SHINE_STRENGTH,
    Wound,
    light,
    normals,
    surface_colour,
)
from polyplink.simulate.picture.march import FAR
from polyplink.simulate.picture.scar import Scar
from tests.simulate.picture.test_field import BODIES, FIELD, PHASES, points
from tests.simulate.scenes import small_scene

PATIENT, _ = small_scene()
TOUCH = FIELD.touch(points(), PHASES)
PIXEL = torch.full_like(TOUCH.distance, 0.004)


def unit(rng: np.random.Generator) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(3, 20))), dim=0)


def test_light_is_the_naive_one() -> None:
    rng = np.random.default_rng(0)
    colour = torch.from_numpy(rng.uniform(0, 1, (3, 20)))
    normal = unit(rng)
    rays = -normal + 0.05 * unit(rng)
    rays = rays / rays.norm(dim=0)
    depth = torch.from_numpy(rng.uniform(0.1, 5, 20))
    result = light(PATIENT, colour, normal, rays, depth)
    for pixel in range(20):
        facing = max(0.0, -sum(float(normal[i, pixel] * rays[i, pixel]) for i in range(3)))
        d = float(depth[pixel])
        for channel in range(3):
            body = float(colour[channel, pixel])
            diffuse = body * (SCATTER[channel] + (1 - SCATTER[channel]) * facing)
            shine = SHINE_STRENGTH * PATIENT.wetness * facing**SHINE
            expected = (diffuse + shine) / (d * d + LIGHT_CORE) * (FAR - d) / FAR
            assert float(result[channel, pixel]) == pytest.approx(expected, rel=1e-5)


def test_wall_and_polyp_have_their_own_colours() -> None:
    colour, relief = surface_colour(PATIENT, TOUCH, [], PIXEL)
    bare, _ = surface_colour(PATIENT, dataclasses.replace(TOUCH, shares=(), paints=()), [], PIXEL)
    assert relief.shape == (2, *PIXEL.shape)
    shares = torch.stack(TOUCH.shares)
    wall = (shares == 0).all(0)
    assert torch.equal(colour[:, wall], bare[:, wall])
    alone = (shares[0] == 1) & (shares[1] == 0)
    assert alone.any()
    ratio = colour[:, alone] / TOUCH.paints[0][:, alone]  # the fine texture shades both alike
    assert ((ratio - ratio[:1]).abs() < 1e-3).all()


def test_a_wound_is_seen_from_its_frame_on() -> None:
    scar = Scar(BODIES[0].lump.centre, 0.3, 10, 0.5, 20.0, torch.zeros(3))
    before, _ = surface_colour(PATIENT, TOUCH, [], PIXEL)
    wound = Wound(scar, torch.tensor([[-1.0], [1.0]]))
    after, _ = surface_colour(PATIENT, TOUCH, [wound], PIXEL)
    assert torch.equal(after[:, 0], before[:, 0])
    near = (points() - BODIES[0].lump.centre[:, None, None]).norm(dim=0)[1] < 0.3
    if near.any():
        assert not torch.allclose(after[:, 1, near], before[:, 1, near], atol=1e-2)


def test_normals_are_unit_and_lean_with_the_relief() -> None:
    flat = normals(TOUCH, torch.zeros(2, *PIXEL.shape))
    slope = torch.stack(TOUCH.slope)
    torch.testing.assert_close(flat, slope / slope.norm(dim=0), atol=1e-5, rtol=0)
    leaning = normals(TOUCH, torch.stack([torch.zeros_like(PIXEL), torch.full_like(PIXEL, 0.3)]))
    torch.testing.assert_close(leaning.norm(dim=0), torch.ones_like(PIXEL), atol=1e-5, rtol=0)
    assert ((leaning - flat)[2] >= -1e-5).all()
    c, s = TOUCH.turn
    around = normals(TOUCH, torch.stack([torch.full_like(PIXEL, 0.3), torch.zeros_like(PIXEL)]))
    assert ((-around[0] * s + around[1] * c) > (-flat[0] * s + flat[1] * c) - 1e-5).all()
    assert math.isfinite(float(around.sum()))
