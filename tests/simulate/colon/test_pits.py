import numpy as np
import pytest

from polyplink.simulate.colon.pits import draw_pattern
from polyplink.simulate.colon.polyp import map_directions

KINDS = np.eye(4)


def waves_per_edge(pattern: np.ndarray) -> float:
    """Mean frequency of the middle of a map."""
    middle = pattern[32:96, 32:96]
    power = np.abs(np.fft.rfft2(middle - middle.mean())) ** 2
    rate = np.hypot(*np.meshgrid(np.fft.fftfreq(64, 1 / 64), np.arange(33), indexing="ij"))
    return float((rate * power).sum() / power.sum())


@pytest.mark.parametrize("kind", range(4))
def test_patterns_are_within_bounds_and_full_of_contrast(kind: int) -> None:
    pattern = draw_pattern(np.random.default_rng(0), KINDS[kind], map_directions(), 12.0, 0.4)
    assert np.abs(pattern).max() <= 1 + 1e-9
    assert pattern.std() > 0.2


@pytest.mark.parametrize("kind", range(4))
def test_a_higher_pitch_is_a_finer_pattern(kind: int) -> None:
    coarse, fine = (
        draw_pattern(np.random.default_rng(0), KINDS[kind], map_directions(), pitch, 0.4)
        for pitch in (8.0, 20.0)
    )
    assert waves_per_edge(fine) > 1.5 * waves_per_edge(coarse)


def test_small_pits_are_smaller_than_wide_ones() -> None:
    small, wide = (
        draw_pattern(np.random.default_rng(0), KINDS[kind], map_directions(), 12.0, 0.4)
        for kind in (1, 2)
    )
    assert waves_per_edge(small) > 1.3 * waves_per_edge(wide)


def test_a_pattern_is_drawn_anew_by_each_generator() -> None:
    first, again, other = (
        draw_pattern(np.random.default_rng(seed), KINDS[0], map_directions(), 12.0, 0.4)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert np.abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.5
