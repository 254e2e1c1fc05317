import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate.course.laws import (
    EXPONENT,
    FACTOR,
    LONG,
    draw_long,
    expected_long,
    flicker_gaps,
    long_lengths,
    look_lengths,
    mean_gap,
    second_gaps,
    short_lengths,
)

SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("frames", [1, 300, 3401, 23_201])
def test_long_tracklets_follow_the_power_law(frames: int) -> None:
    assert expected_long(frames) == pytest.approx(FACTOR * frames**EXPONENT)
    assert expected_long(0) == 0.0


def test_the_noise_is_unbiased_and_shrinks() -> None:
    rng = np.random.default_rng(0)
    spread = {}
    for frames in (2000, 23_201):
        draws = np.array([draw_long(rng, frames) for _ in range(4000)])
        assert draws.mean() == pytest.approx(expected_long(frames), rel=0.02)
        spread[frames] = draws.std() / draws.mean()
    assert spread[23_201] < 0.03 < 0.1 < spread[2000] < 0.3


@given(SEEDS, st.integers(0, 25_000))
def test_a_polyp_has_two_long_tracklets_or_more(seed: int, frames: int) -> None:
    long = draw_long(np.random.default_rng(seed), frames)
    assert min(2, frames // LONG) <= long <= frames / LONG


@given(SEEDS, st.integers(0, 120), st.integers(0, 3000))
def test_short_ones_are_short_and_few_enough(seed: int, long: int, most: int) -> None:
    lengths = short_lengths(np.random.default_rng(seed), long, most)
    assert lengths.sum() <= most
    assert np.all((lengths >= 1) & (lengths < LONG))
    if most > 20 * 5 * long:
        assert len(lengths) == pytest.approx(4.95 * long, abs=0.15 * long + 1)


@given(SEEDS, st.integers(1, 120), st.integers(0, 20_000))
def test_long_ones_are_long_and_sum_up(seed: int, long: int, more: int) -> None:
    lengths = long_lengths(np.random.default_rng(seed), long, LONG * long + more)
    assert len(lengths) == long
    assert lengths.sum() == LONG * long + more
    assert lengths.min() >= LONG


def test_lengths_are_log_normal_with_a_sigma_of_about_one() -> None:
    lengths = long_lengths(np.random.default_rng(0), 5000, 160 * 5000)
    assert 0.7 < np.log(lengths).std() < 1.1


@given(SEEDS, st.integers(0, 25_000), st.integers(0, 120))
def test_looks_sum_up_to_the_frames(seed: int, frames: int, long: int) -> None:
    lengths = look_lengths(np.random.default_rng(seed), frames, long)
    assert lengths.sum() == frames
    assert np.all(lengths >= 1)
    if long:
        assert (lengths >= LONG).sum() == min(long, frames // LONG)


def test_gaps_are_flickers_and_seconds() -> None:
    rng = np.random.default_rng(0)
    flicker, seconds = flicker_gaps(rng, 5000), second_gaps(rng, 5000, 25.0)
    assert flicker.min() == 1
    assert flicker.max() == 15
    assert np.median(seconds) == pytest.approx(50, rel=0.05)
    assert seconds.max() <= 30 * 25
    mixed = 0.8 * flicker.mean() + 0.2 * seconds.mean()
    assert mean_gap(25.0) == pytest.approx(mixed, rel=0.05)
