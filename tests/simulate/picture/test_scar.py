import numpy as np
import torch

from polyplink.simulate.picture.scar import REACH, Scar, draw_scar, stain

PLACE = torch.tensor([0.3, -0.2, 1.0])
SCAR = draw_scar(np.random.default_rng(0), PLACE, 0.1, 500)
WALL = torch.tensor([0.8, 0.3, 0.2])[:, None]


def colour_at(radii: float, age: float, scar: Scar = SCAR) -> torch.Tensor:
    point = PLACE[:, None] + torch.tensor([[radii * scar.radius], [0.0], [0.0]])
    return stain(WALL, point, scar, torch.tensor([age]))[:, 0]


def test_there_is_no_wound_before_the_polyp_is_gone() -> None:
    for radii in (0.0, 0.5, 1.0):
        assert torch.equal(colour_at(radii, -0.04), WALL[:, 0])


def test_nothing_is_stained_far_away() -> None:
    assert torch.equal(colour_at(REACH, 0.0), WALL[:, 0])


def test_it_bleeds_and_then_is_pale_within_a_red_rim() -> None:
    fresh, healed, rim = colour_at(0.2, 0.0), colour_at(0.2, 600.0), colour_at(1.05, 600.0)
    assert fresh[1] < 0.1
    assert healed[1] > 1.3 * WALL[1, 0]
    assert rim[1] < 0.95 * WALL[1, 0]
    assert rim[0] / rim[1] > healed[0] / healed[1]


def test_every_point_is_coloured_by_its_own_frame() -> None:
    points = PLACE[:, None].repeat(1, 3)
    both = stain(WALL.repeat(1, 3), points, SCAR, torch.tensor([-1.0, 0.0, 600.0]))
    for index, age in enumerate((-1.0, 0.0, 600.0)):
        torch.testing.assert_close(both[:, index], colour_at(0.0, age))


def test_wounds_differ() -> None:
    other = draw_scar(np.random.default_rng(1), PLACE, 0.1, 500)
    assert other.ooze != SCAR.ooze
    assert other.to(torch.device("cpu")).since == 500
