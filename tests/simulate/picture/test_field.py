import dataclasses
import math

import numpy as np
import pytest
import torch

from polyplink.simulate.colon.surface import Colon, Lump, centre_line, surface, to_material
from polyplink.simulate.picture.body import Body, Skin, make_body
from polyplink.simulate.picture.field import Field, Touch

COLON = Colon(
    bend=(0.9, 0.7),
    bend_rate=(0.5, 0.6),
    bend_phase=(0.4, 1.0),
    fold_rate=5.0,
    fold_phase=0.3,
    fold_depth=0.25,
    fold_tilt=0.6,
    corner_depth=0.06,
    corner_phase=0.5,
    wave=0.05,
    wave_rate=2.0,
)
PLACES = ((0.2, 0.9), (0.9, 1.6))  # z, angle
MAP = 65


def wall_point(z: float, angle: float) -> tuple[float, float, float]:
    x, y = (float(line) for line in centre_line(COLON, torch.tensor(z)))
    return x + math.cos(angle), y + math.sin(angle), z


CALM = dataclasses.replace(COLON, calm=tuple(wall_point(*place) for place in PLACES))


def body(z: float, angle: float, stalk: tuple[float, float] = (0.0, 0.0)) -> Body:
    """A lump on the wall whose radius and colours change smoothly over its map."""
    edge = torch.linspace(-1.7, 1.7, MAP)
    rows, columns = torch.meshgrid(edge, edge, indexing="ij")
    inside = (1 - rows**2 / 2.9).clamp_min(0) * (1 - columns**2 / 2.9).clamp_min(0)
    radius = 1 + 0.2 * inside * torch.sin(2 * columns + rows)
    paint = torch.stack([0.5 + 0.2 * torch.sin(k + rows - columns) for k in range(3)])
    inward = torch.tensor([-math.cos(angle), -math.sin(angle), 0.0])
    along = torch.tensor([0.0, 0.0, 1.0])
    axes = torch.stack([along, torch.linalg.cross(inward, along), inward], dim=1)
    centre = torch.tensor(wall_point(z, angle)) + 0.15 * inward
    lump = Lump(centre, axes, torch.tensor([0.3, 0.2, 0.25]), 0.08, radius[None], stalk)
    return make_body(Skin(lump, paint))


BODIES = (body(*PLACES[0]), body(*PLACES[1], stalk=(0.08, 0.3)))
FIELD = Field(CALM, BODIES)
PHASES = torch.tensor([[0.3], [2.0]])


def points(n: int = 120) -> torch.Tensor:
    """Points (3, 2, n) about the two lumps."""
    rng = np.random.default_rng(0)
    around = torch.from_numpy(rng.normal(0, 0.25, (3, 2, n)).astype(np.float32))
    return around + torch.stack([b.lump.centre for b in BODIES], dim=1)[:, :, None]


def plain(place: torch.Tensor, phase: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    flat = place.reshape(3, -1)
    phases = phase.expand(place.shape[1:]).reshape(-1)
    return surface(CALM, [b.lump for b in BODIES], flat, phases)


def test_distances_are_those_of_the_plain_scene() -> None:
    expected, _ = plain(points(), PHASES)
    result = FIELD.distance(points(), PHASES)
    torch.testing.assert_close(result.reshape(-1), expected, atol=2e-6, rtol=1e-5)


def test_touch_has_the_same_distances_and_shares() -> None:
    expected, shares = plain(points(), PHASES)
    result = FIELD.touch(points(), PHASES)
    torch.testing.assert_close(result.distance.reshape(-1), expected, atol=2e-6, rtol=1e-5)
    for share, plainly in zip(result.shares, shares, strict=True):
        torch.testing.assert_close(share.reshape(-1), plainly, atol=1e-4, rtol=0)


def touch_near(field: Field) -> tuple[torch.Tensor, Touch]:
    """Points brought to the surface, where slopes are exact."""
    place = points()
    for _ in range(40):
        touch = field.touch(place, PHASES)
        slope = torch.stack(touch.slope)
        place = place - 0.5 * touch.distance * slope / (slope * slope).sum(0)
    return place, field.touch(place, PHASES)


@pytest.mark.parametrize("field", [Field(COLON), Field(CALM), FIELD], ids=["wall", "calm", "all"])
def test_slopes_are_the_gradient_on_the_surface(field: Field) -> None:
    place, touch = touch_near(field)
    slope = torch.stack(touch.slope)
    lumps = [b.lump for b in field.bodies if isinstance(b, Body)]
    phases = PHASES.double().expand(place.shape[1:]).reshape(-1)
    exact = torch.empty_like(slope)
    double = [
        dataclasses.replace(
            lump,
            centre=lump.centre.double(),
            axes=lump.axes.double(),
            radii=lump.radii.double(),
            maps=lump.maps.double(),
        )
        for lump in lumps
    ]
    for axis in range(3):
        step = torch.zeros(3, 1, dtype=torch.float64)
        step[axis] = 1e-5
        flat = place.double().reshape(3, -1)
        ahead, back = (surface(field.colon, double, flat + s, phases)[0] for s in (step, -step))
        exact[axis] = ((ahead - back) / 2e-5).reshape(place.shape[1:]).float()
    reached = touch.distance.abs() < 1e-3
    assert reached.float().mean() > 0.9
    cosine = (slope * exact).sum(0) / (slope.norm(dim=0) * exact.norm(dim=0))
    assert torch.quantile(cosine[reached], 0.02) > 0.999
    length = slope.norm(dim=0) / exact.norm(dim=0)
    assert (length[reached] - 1).abs().median() < 2e-3


def test_touch_tells_where_points_are_at_rest() -> None:
    touch = FIELD.touch(points(), PHASES)
    expected = to_material(CALM, points(), PHASES)
    torch.testing.assert_close(torch.stack(touch.material), expected, atol=1e-6, rtol=1e-5)
    x, y = centre_line(CALM, expected[2])
    angle = torch.atan2(expected[1] - y, expected[0] - x)
    torch.testing.assert_close(touch.turn[0], torch.cos(angle), atol=1e-4, rtol=0)
    torch.testing.assert_close(touch.turn[1], torch.sin(angle), atol=1e-4, rtol=0)


def test_paint_on_top_is_the_middle_of_the_map() -> None:
    one = BODIES[0]
    top = (one.lump.centre + 0.2 * one.lump.axes[:, 2])[:, None, None]
    rest = dataclasses.replace(FIELD, colon=dataclasses.replace(CALM, wave=0.0))
    paint = rest.touch(top, torch.zeros(1, 1)).paints[0][:, 0, 0]
    torch.testing.assert_close(paint, one.maps[0, 3:, MAP // 2, MAP // 2], atol=1e-4, rtol=0)


def test_values_do_not_depend_on_neighbours() -> None:
    whole = FIELD.distance(points(1001), PHASES)
    for frame in (0, 1):
        part = points(1001)[:, frame : frame + 1, :777].contiguous()
        alone = FIELD.distance(part, PHASES[frame : frame + 1])
        assert torch.equal(alone[0], whole[frame, :777])


def test_a_field_keeps_only_what_is_named() -> None:
    one = FIELD.near([BODIES[1]], [CALM.calm[0]])
    assert len(one.touch(points(), PHASES).shares) == 1
    assert one.colon.calm == (CALM.calm[0],)
