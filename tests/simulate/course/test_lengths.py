import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate import PRESETS, preset, procedure_specs
from polyplink.simulate.course.lengths import compose, draw_lengths

SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("name", list(PRESETS))
def test_looks_sum_up_to_the_visible_frames(name: str) -> None:
    wanted = preset(name)
    for spec in procedure_specs(wanted, 1):
        lengths = draw_lengths(np.random.default_rng(0), spec, wanted)
        frames = [int(own.sum()) for own in lengths.own]
        for pair, both in zip(spec.pairs, lengths.pairs, strict=True):
            assert both.sum() == pair.frames
            assert (both >= 30).any()
            frames[pair.first] += int(both.sum())
            frames[pair.second] += int(both.sum())
        assert frames == [polyp.visible_frames for polyp in spec.polyps]


@pytest.mark.parametrize("name", ["tiny", "small", "smoke"])
def test_ranges_of_the_preset_hold(name: str) -> None:
    wanted = preset(name)
    for spec in procedure_specs(wanted, 2):
        for own in draw_lengths(np.random.default_rng(0), spec, wanted).own:
            long = own[own >= wanted.long_frames[0]]
            short = own[own < wanted.long_frames[0]]
            assert wanted.long_views[0] <= len(long) <= wanted.long_views[1]
            assert long.max() <= wanted.long_frames[1]
            assert len(short) <= wanted.short_views[1]
            assert np.all((short >= wanted.short_frames[0]) & (short <= wanted.short_frames[1]))


@given(SEEDS, st.integers(1, 5), st.integers(0, 4))
def test_a_sum_of_looks_is_split_into_looks(seed: int, long: int, short: int) -> None:
    rng = np.random.default_rng(seed)
    total = int(rng.integers(30, 36, long).sum() + rng.integers(6, 21, short).sum())
    lengths = compose(rng, total, ((1, 5), (30, 35)), ((0, 4), (6, 20)))
    assert lengths.sum() == total
    assert np.all((lengths >= 6) & (lengths <= 35) & ((lengths <= 20) | (lengths >= 30)))
    assert 1 <= (lengths >= 30).sum() <= 5
    assert (lengths < 30).sum() <= 4


@given(SEEDS, st.integers(0, 3000))
def test_any_total_is_split(seed: int, total: int) -> None:
    lengths = compose(np.random.default_rng(seed), total, ((2, 3), (30, 31)), ((0, 0), (6, 7)))
    assert lengths.sum() == total
    assert np.all(lengths >= 1)
