import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.errors import PolyplinkError
from polyplink.simulate.picture.histology import HABITS, draw_tissue, habit_of


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
