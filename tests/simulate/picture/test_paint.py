import dataclasses

import numpy as np
import torch

from polyplink.simulate.colon.polyp import Traits, draw_traits, surface_maps
from polyplink.simulate.picture.paint import paint_map
from tests.simulate.scenes import Kind

TISSUE = torch.tensor([0.8, 0.35, 0.28])


def drawn(seed: int = 0, kind: str = "AD") -> tuple[Traits, torch.Tensor]:
    rng = np.random.default_rng(seed)
    traits = draw_traits(rng, Kind(5.0, kind), 0.5)
    return traits, surface_maps(rng, traits)


def test_colours_are_red_and_in_range() -> None:
    for seed in range(6):
        paint = paint_map(*drawn(seed), TISSUE)
        assert torch.isfinite(paint).all()
        assert paint.min() >= 0
        assert paint.max() < 2.5
        red, green, blue = paint.mean(dim=(1, 2))
        assert red > green > blue * 0.8


def test_bare_tissue_has_the_patients_colour() -> None:
    traits, maps = drawn()
    bare = dataclasses.replace(traits.tissue, contrast=0, hue=0, value=0, vessels=0, mucus=0)
    paint = paint_map(dataclasses.replace(traits, tissue=bare, cap=0.0), maps, TISSUE)
    torch.testing.assert_close(paint, TISSUE[:, None, None].expand_as(paint))


def test_hue_makes_it_browner_and_mucus_yellower() -> None:
    traits, maps = drawn()

    def ratio(first: int, second: int, hue: float = 0.0, mucus: float = 0.0) -> float:
        tissue = dataclasses.replace(traits.tissue, hue=hue, mucus=mucus)
        paint = paint_map(dataclasses.replace(traits, tissue=tissue), maps, TISSUE)
        mean = paint.mean(dim=(1, 2))
        return float(mean[first] / mean[second])

    assert ratio(0, 1, hue=0.3) > ratio(0, 1) * 1.2
    assert ratio(1, 0, mucus=1.0) > ratio(1, 0)


def test_polyps_share_their_patients_colour() -> None:
    traits, maps = drawn()
    twice = paint_map(traits, maps, TISSUE)
    pale = paint_map(traits, maps, 0.5 * TISSUE)
    assert (pale <= twice + 1e-6).all()
