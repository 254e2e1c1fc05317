import dataclasses

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyplink.simulate.picture.paint import paint_map
from polyplink.simulate.picture.polyp import Traits, draw_traits, surface_maps
from tests.simulate.scenes import Kind

CLASSES, CHANCES = ("AD", "HP", "NO POLYP"), (0.43, 0.42, 0.15)  # about as in REAL-Colon
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


def features(paint: torch.Tensor) -> list[float]:
    """Mean colours, contrast and the power of five bands of waves, of the middle of a map."""
    tone = (1 - torch.exp(-2.2 * paint[:, 24:104, 24:104])).sqrt().numpy()
    bright = tone.mean(0)
    power = np.abs(np.fft.rfft2(bright - bright.mean())) ** 2
    rate = np.hypot(*np.meshgrid(np.fft.fftfreq(80, 1 / 80), np.arange(41), indexing="ij"))
    bands = [power[(rate >= low) & (rate < 2 * low)].mean() for low in (1, 2, 4, 8, 16)]
    red, green, blue = tone.mean(axis=(1, 2))
    return [np.log(red / green), np.log(green / blue), red, bright.std(), *np.log(bands)]


def test_histology_can_be_guessed_from_the_surface_but_not_known() -> None:
    """A linear probe tells adenomas from the rest better than chance, and is often wrong."""
    rng = np.random.default_rng(0)
    known, rows = [], []
    for _ in range(150):
        kind = str(rng.choice(CLASSES, p=CHANCES))
        traits = draw_traits(rng, Kind(3.0, kind), 0.5)
        tissue = TISSUE * torch.from_numpy(np.exp(rng.normal(0, 0.1, 3)).astype(np.float32))
        rows.append(features(paint_map(traits, surface_maps(rng, traits), tissue)))
        known.append(kind == "AD")
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
    scores = cross_val_predict(probe, np.array(rows), known, cv=5, method="decision_function")
    assert 0.68 < roc_auc_score(known, scores) < 0.92
