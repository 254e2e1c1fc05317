import dataclasses

import numpy as np
import pytest
import torch

from polyplink.simulate.colon.polyp import FORMS, draw_traits
from polyplink.simulate.colon.still_surface import StillSurface
from polyplink.simulate.colon.surface import Colon, Lump, draw_colon, surface
from polyplink.simulate.course.stage import Place, calm_at, set_lump
from polyplink.simulate.procedure_specs import PolypSpec


def polyp(seed: int, calm: int, paris: str) -> tuple[Colon, Lump]:
    rng = np.random.default_rng(seed)
    place = Place(float(rng.uniform(-300, 0)), float(rng.uniform(-3, 3)))
    others = [Place(place.z + away, place.angle + 1) for away in (0.8, -1.7)]
    colon = calm_at(draw_colon(rng), [place, *others][:calm])
    spec = PolypSpec(float(rng.uniform(1, 30)), "sigma", "adenoma", "AD", 100)
    traits = dataclasses.replace(draw_traits(rng, spec, 0.5), form=FORMS[paris])
    return colon, set_lump(rng, colon, place, traits)


@pytest.mark.parametrize(("calm", "paris"), [(0, "Is"), (1, "Ip"), (3, "IIa"), (3, "Ip")])
@pytest.mark.parametrize("count", [1, 7, 1152])
def test_it_is_the_plain_surface_to_the_last_bit(calm: int, paris: str, count: int) -> None:
    for seed in range(4):
        colon, lump = polyp(seed, calm, paris)
        reach = float(lump.radii.max())
        way = torch.randn(3, count, generator=torch.Generator().manual_seed(seed))
        points = lump.centre[:, None] + 1.5 * reach * way
        distance, share = surface(colon, [lump], points)
        found, found_share = StillSurface.of(colon, lump).at(points)
        np.testing.assert_array_equal(found.numpy(), distance.numpy())
        np.testing.assert_array_equal(found_share.numpy(), share[0].numpy())
    assert count == 1 or 0 < share.mean() < 1
