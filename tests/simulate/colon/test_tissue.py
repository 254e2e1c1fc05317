import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyplink.core.errors import PolyplinkError
from polyplink.simulate.colon.polyp import Traits, draw_traits, map_directions, surface_maps
from polyplink.simulate.colon.tissue import (
    HABITS,
    draw_pattern,
    draw_tissue,
    paint_map,
)

CLASSES, CHANCES = ("AD", "HP", "NO POLYP"), (0.43, 0.42, 0.15)  # about as in REAL-Colon
PATIENTS = 0.12  # by how much the hue of one patient differs from the next


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(HABITS)), st.floats(0.5, 1.5))
def test_tissue_is_in_its_ranges(seed: int, kind: str, spread: float) -> None:
    tissue = draw_tissue(np.random.default_rng(seed), kind, spread)
    assert sum(tissue.pattern) == pytest.approx(1)
    assert min(tissue.pattern) >= 0
    for value in (tissue.contrast, tissue.vessels, tissue.mucus):
        assert 0 <= value <= 1


def test_every_class_of_the_release_has_a_habit_and_no_other() -> None:
    assert set(HABITS) == {"AD", "HP", "SSL", "TSA", "OTHER", "NO POLYP"}
    with pytest.raises(PolyplinkError, match="did you mean AD"):
        draw_tissue(np.random.default_rng(0), "ADE", 1.0)


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.5])
def test_histology_can_be_guessed_from_the_surface_but_not_known(spread: float) -> None:
    """A linear probe tells adenomas from the rest better than chance, and is often wrong.

    It sees hue and brightness only beside those of the patient, as in a picture.
    """
    rng = np.random.default_rng(0)
    kinds = [str(kind) for kind in rng.choice(CLASSES, 1500, p=CHANCES)]
    rows = []
    for kind in kinds:
        tissue = draw_tissue(rng, kind, spread)
        hue, value = np.array([tissue.hue, tissue.value]) + rng.normal(0, PATIENTS, 2)
        rows.append([*tissue.pattern[:3], tissue.contrast, tissue.vessels, hue, value])
    known = np.array(kinds) == "AD"
    probe = make_pipeline(StandardScaler(), LogisticRegression())
    scores = cross_val_predict(probe, np.array(rows), known, cv=5, method="decision_function")
    assert 0.7 < roc_auc_score(known, scores) < 0.9


KINDS = np.eye(4)


def waves_per_edge(pattern: np.ndarray) -> float:
    """Mean frequency of the middle of a map."""
    middle = pattern[32:96, 32:96]
    power = np.abs(np.fft.rfft2(middle - middle.mean())) ** 2
    rate = np.hypot(*np.meshgrid(np.fft.fftfreq(64, 1 / 64), np.arange(33), indexing="ij"))
    return float((rate * power).sum() / power.sum())


def waves_of(kind: int, pitch: float) -> float:
    rng = np.random.default_rng(0)
    return waves_per_edge(draw_pattern(rng, KINDS[kind], map_directions(), pitch, 0.4))


@pytest.mark.parametrize("kind", range(4))
def test_a_higher_pitch_is_a_finer_pattern(kind: int) -> None:
    assert waves_of(kind, 20.0) > 1.5 * waves_of(kind, 8.0)


MEAN = torch.tensor([0.8, 0.35, 0.28])


def drawn(seed: int = 0, kind: str = "AD") -> tuple[Traits, torch.Tensor]:
    rng = np.random.default_rng(seed)
    traits = draw_traits(rng, 5.0, kind, 0.5)
    return traits, surface_maps(rng, traits)


def painted(traits: Traits, maps: torch.Tensor, mean: torch.Tensor = MEAN) -> torch.Tensor:
    return paint_map(traits.tissue, traits.cap, maps, mean)


def test_bare_tissue_has_the_patients_colour() -> None:
    traits, maps = drawn()
    bare = dataclasses.replace(traits.tissue, contrast=0, hue=0, value=0, vessels=0, mucus=0)
    paint = painted(dataclasses.replace(traits, tissue=bare, cap=0.0), maps)
    torch.testing.assert_close(paint, MEAN[:, None, None].expand_as(paint))


def test_hue_makes_it_browner_and_mucus_yellower() -> None:
    traits, maps = drawn()

    def ratio(first: int, second: int, hue: float = 0.0, mucus: float = 0.0) -> float:
        tissue = dataclasses.replace(traits.tissue, hue=hue, mucus=mucus)
        paint = painted(dataclasses.replace(traits, tissue=tissue), maps)
        mean = paint.mean(dim=(1, 2))
        return float(mean[first] / mean[second])

    assert ratio(0, 1, hue=0.3) > ratio(0, 1) * 1.2
    assert ratio(1, 0, mucus=1.0) > ratio(1, 0)
