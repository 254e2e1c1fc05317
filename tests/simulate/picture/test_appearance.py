from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from polyplink.simulate.colon.polyp import draw_traits, place_lump, surface_maps, wall_frame
from polyplink.simulate.colon.surface import draw_colon
from polyplink.simulate.picture.appearance import draw_appearance
from polyplink.simulate.plan import Plan
from tests.simulate.scenes import Kind


def planned(n: int = 20) -> Plan:
    """What of a plan a look is drawn from: two polyps, of which the second is removed."""
    colon = draw_colon(np.random.default_rng(5))
    traits, lumps = [], []
    for index, kind in enumerate(("AD", "HP")):
        rng = np.random.default_rng(index)
        traits.append(draw_traits(rng, Kind(6.0, kind), 0.5))
        point, axes = wall_frame(colon, 3.0 * index, 1.0)
        lumps.append(place_lump(traits[-1], surface_maps(rng, traits[-1]), point, axes))
    blink = np.arange(n) // 4 % 2 == 0
    parts = SimpleNamespace(
        spec=SimpleNamespace(procedure_id="001-001", bbps=7.0, brand="Fujifilm", fps=25.0),
        timeline=SimpleNamespace(removed=(None, 12)),
        colon=colon,
        traits=tuple(traits),
        lumps=tuple(lumps),
        conditions=SimpleNamespace(blink=blink),
    )
    return cast(Plan, parts)


PLAN = planned()
SCENERY = draw_appearance(PLAN, 3)


def test_the_same_plan_and_seed_give_the_same_look() -> None:
    again, other = draw_appearance(PLAN, 3), draw_appearance(PLAN, 4)
    assert torch.equal(again.patient.mucosa.coarse, SCENERY.patient.mucosa.coarse)
    assert torch.equal(again.skins[1].paint, SCENERY.skins[1].paint)
    assert (again.start, again.blinks.tolist()) == (SCENERY.start, SCENERY.blinks.tolist())
    assert not torch.equal(other.patient.mucosa.coarse, SCENERY.patient.mucosa.coarse)
    assert other.start != SCENERY.start


def test_the_look_is_that_of_the_plan() -> None:
    assert SCENERY.patient.colon is PLAN.colon
    assert [skin.lump for skin in SCENERY.skins] == list(PLAN.lumps)
    assert (SCENERY.blinks >= 0).tolist() == PLAN.conditions.blink.tolist()
    assert (SCENERY.brand, SCENERY.fps) == ("Fujifilm", 25.0)


def test_only_a_removed_polyp_leaves_a_scar_at_its_foot() -> None:
    (scar,) = SCENERY.scars
    assert scar.since == 12
    assert (scar.place - PLAN.lumps[1].centre).norm() < 0.2
    radius = float(PLAN.lumps[1].radii[0])
    assert 0.4 * radius < scar.radius < 1.2 * radius


def test_polyps_of_one_patient_share_its_colour() -> None:
    """Their mean colours follow the patient's, over patients."""
    red = [
        [float(skin.paint[0].mean() / skin.paint[1].mean()) for skin in look.skins]
        + [float(look.patient.tissue[0] / look.patient.tissue[1])]
        for look in (draw_appearance(PLAN, seed) for seed in range(5))
    ]
    first, second, patient = np.array(red).T
    assert np.corrcoef(first, patient)[0, 1] > 0.9
    assert np.corrcoef(second, patient)[0, 1] > 0.9


def test_moving_to_a_device_changes_nothing() -> None:
    moved = SCENERY.to(torch.device("cpu"))
    assert torch.equal(moved.skins[0].paint, SCENERY.skins[0].paint)
    assert torch.equal(moved.grain, SCENERY.grain)
    assert moved.scars[0].radius == pytest.approx(SCENERY.scars[0].radius)
