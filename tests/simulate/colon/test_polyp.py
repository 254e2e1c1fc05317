"""Appearance of polyps: their form, tissue and place on the wall."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyplink.core.errors import PolyplinkError
from polyplink_lab.simulate.colon.polyp import (
    FORMS,
    Traits,
    draw_traits,
    place_lump,
    surface_maps,
    wall_frame,
)
from polyplink_lab.simulate.colon.surface import (
    MM_PER_UNIT,
    draw_colon,
    lump_distance,
    wall_distance,
)
from polyplink_lab.simulate.colon.tissue import HABITS, draw_tissue, paint_map

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 17).map(float)
KINDS = st.sampled_from(sorted(HABITS))


def traits_of(seed: int, size: float = 5.0, kind: str = "AD", difficulty: float = 0.5) -> Traits:
    return draw_traits(np.random.default_rng(seed), size, kind, difficulty)


@given(SEEDS, SIZES, KINDS, st.floats(0, 1))
def test_traits_are_in_their_ranges(seed: int, size: float, kind: str, difficulty: float) -> None:
    traits = traits_of(seed, size, kind, difficulty)
    assert traits.form in FORMS.values()
    assert traits.size_mm == size
    assert traits.form.height[0] <= traits.height <= traits.form.height[1]
    assert 0.3 <= traits.narrow <= 1
    tissue = traits.tissue
    assert sum(tissue.pattern) == pytest.approx(1)
    for value in (*tissue.pattern, tissue.contrast, tissue.vessels, tissue.mucus):
        assert 0 <= value <= 1


@settings(max_examples=5)
@given(SEEDS, SIZES, KINDS)
def test_maps_are_finite_and_radii_positive(seed: int, size: float, kind: str) -> None:
    maps = surface_maps(np.random.default_rng(seed), traits_of(seed, size, kind, 0.0))
    radius, pattern, patches, vessels, mucus = maps
    assert radius.min() > 0.3
    assert pattern.abs().max() <= 1 + 1e-5
    assert patches.min() >= 0
    assert min(vessels.min(), mucus.min()) >= 0
    assert max(vessels.max(), mucus.max()) <= 1.0001
    assert torch.isfinite(maps).all()


def forms_of(size: float, kind: str = "AD") -> Counter[str]:
    """How many of 200 polyps have each form."""
    return Counter(traits_of(seed, size, kind).form.paris for seed in range(200))


def test_forms_are_as_frequent_as_in_the_literature() -> None:
    small, large, serrated = forms_of(3), forms_of(9), forms_of(3, "SSL")
    assert small["Is"] > small["IIa"] > small["Isp"] > small["Ip"]
    assert small["Ip"] < 6 < 24 < large["Ip"]
    assert serrated["IIa"] > small["IIa"] + 20


def test_polyps_are_more_similar_at_higher_difficulty() -> None:
    def deviation(difficulty: float) -> float:
        return float(np.std([traits_of(s, difficulty=difficulty).tissue.hue for s in range(200)]))

    assert deviation(0.0) > 2 * deviation(1.0)


@given(SEEDS, st.floats(-5, 5), st.floats(0, 2 * math.pi))
def test_wall_frame_is_on_the_wall_and_right_handed(seed: int, z: float, angle: float) -> None:
    colon = draw_colon(np.random.default_rng(seed))
    point, axes = wall_frame(colon, z, angle)
    assert wall_distance(colon, point[:, None]).item() == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-5)
    assert torch.linalg.det(axes).item() == pytest.approx(1, abs=1e-5)
    assert wall_distance(colon, (point + 0.05 * axes[:, 2])[:, None]).item() > 0


@pytest.mark.parametrize("paris", sorted(FORMS))
def test_a_placed_lump_has_its_size_and_is_in_the_lumen(paris: str) -> None:
    colon = draw_colon(np.random.default_rng(2))
    traits = next(t for t in (traits_of(seed, 9.0) for seed in range(400)) if t.form.paris == paris)
    point, axes = wall_frame(colon, 1.0, 2.0)
    lump = place_lump(traits, surface_maps(np.random.default_rng(0), traits), point, axes)
    assert float(lump.radii[0]) * 2 * MM_PER_UNIT == pytest.approx(9.0)
    np.testing.assert_allclose(lump.axes.T @ lump.axes, np.eye(3), atol=1e-5)
    assert lump_distance(lump, lump.centre[:, None]).item() < 0
    top = lump.centre + 0.9 * lump.radii[2] * lump.axes[:, 2]
    assert wall_distance(colon, top[:, None]).item() > 0


CLASSES, CHANCES = ("AD", "HP", "NO POLYP"), (0.43, 0.42, 0.15)  # approximately as in REAL-Colon
PATIENTS = 0.12  # standard deviation of hue between patients


def test_exactly_the_classes_of_the_release_have_a_habit() -> None:
    assert set(HABITS) == {"AD", "HP", "SSL", "TSA", "OTHER", "NO POLYP"}
    with pytest.raises(PolyplinkError, match="did you mean AD"):
        draw_tissue(np.random.default_rng(0), "ADE", 1.0)


@pytest.mark.parametrize("spread", [0.5, 1.5])
def test_histology_is_only_partly_predictable_from_the_surface(spread: float) -> None:
    """A linear probe distinguishes adenomas better than chance but not perfectly.

    Hue and brightness include those of the patient, as in a picture.
    """
    rng = np.random.default_rng(0)
    kinds = [str(kind) for kind in rng.choice(CLASSES, 1500, p=CHANCES)]
    rows = []
    for kind in kinds:
        tissue = draw_tissue(rng, kind, spread)
        hue, value = np.array([tissue.hue, tissue.value]) + rng.normal(0, PATIENTS, 2)
        rows.append([*tissue.pattern[:3], tissue.contrast, tissue.vessels, hue, value])
    is_adenoma = np.array(kinds) == "AD"
    probe = make_pipeline(StandardScaler(), LogisticRegression())
    scores = cross_val_predict(probe, np.array(rows), is_adenoma, cv=5, method="decision_function")
    assert 0.7 < roc_auc_score(is_adenoma, scores) < 0.9


MEAN = torch.tensor([0.8, 0.35, 0.28])


def traits_and_maps(seed: int = 0, kind: str = "AD") -> tuple[Traits, torch.Tensor]:
    rng = np.random.default_rng(seed)
    traits = draw_traits(rng, 5.0, kind, 0.5)
    return traits, surface_maps(rng, traits)


def paint(traits: Traits, maps: torch.Tensor, mean: torch.Tensor = MEAN) -> torch.Tensor:
    return paint_map(traits.tissue, traits.cap, maps, mean)


def test_tissue_without_features_has_the_colour_of_the_patient() -> None:
    traits, maps = traits_and_maps()
    plain_tissue = dataclasses.replace(
        traits.tissue, contrast=0, hue=0, value=0, vessels=0, mucus=0
    )
    colours = paint(dataclasses.replace(traits, tissue=plain_tissue, cap=0.0), maps)
    torch.testing.assert_close(colours, MEAN[:, None, None].expand_as(colours))


def test_hue_makes_tissue_browner_and_mucus_yellower() -> None:
    traits, maps = traits_and_maps()

    def ratio(first: int, second: int, hue: float = 0.0, mucus: float = 0.0) -> float:
        tissue = dataclasses.replace(traits.tissue, hue=hue, mucus=mucus)
        colours = paint(dataclasses.replace(traits, tissue=tissue), maps)
        mean = colours.mean(dim=(1, 2))
        return float(mean[first] / mean[second])

    assert ratio(0, 1, hue=0.3) > ratio(0, 1) * 1.2
    assert ratio(1, 0, mucus=1.0) > ratio(1, 0)
