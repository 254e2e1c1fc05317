import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyplink.core.errors import PolyplinkError
from polyplink.simulate.colon.histology import HABITS, draw_tissue, habit_of

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
        habit_of("ADE")


def test_a_larger_spread_sets_polyps_further_apart() -> None:
    def deviation(spread: float) -> float:
        rng = np.random.default_rng(0)
        return float(np.std([draw_tissue(rng, "AD", spread).hue for _ in range(300)]))

    assert deviation(1.5) == pytest.approx(3 * deviation(0.5), rel=0.25)


def test_classes_differ_in_the_mean_and_overlap() -> None:
    rng = np.random.default_rng(1)
    adenomas, others = (
        np.array([draw_tissue(rng, kind, 1.0).hue for _ in range(400)]) for kind in ("AD", "HP")
    )
    above = (adenomas[:, None] > others).mean()  # the area under the curve of hue alone
    assert 0.6 < above < 0.85


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
