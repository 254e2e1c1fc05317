"""Timelines: when polyps are viewed, treated and removed."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink_lab.simulate.course.timeline import (
    EXPONENT,
    FACTOR,
    LONG,
    Look,
    Timeline,
    Visit,
    draw_jets,
    draw_lengths,
    draw_long,
    draw_smoke,
    draw_timeline,
    draw_treatment,
    draw_visits,
    look_lengths,
    mean_gap,
)
from polyplink_lab.simulate.presets import PRESETS, Preset, preset
from polyplink_lab.simulate.procedure_specs import (
    PairSpec,
    PolypSpec,
    ProcedureSpec,
    procedure_specs,
    stream,
)


@cache
def timelines(name: str) -> list[tuple[ProcedureSpec, Timeline]]:
    return [
        (spec, draw_timeline(stream(0, spec.procedure_id, "course"), spec, preset(name)))
        for spec in procedure_specs(preset(name), 0)
    ]


# --- Whole timelines ------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(PRESETS))
def test_timelines_agree_with_their_specification(name: str) -> None:
    for spec, timeline in timelines(name):
        assert timeline.n_frames == spec.n_frames
        assert all(a.end < b.first for a, b in pairwise(timeline.looks))
        if timeline.looks:
            assert timeline.looks[0].first >= 0
            assert timeline.looks[-1].end <= spec.n_frames
        assert sum(look.frames for look in timeline.looks) == spec.boxed_frames
        assert timeline.pairs == tuple((pair.first, pair.second) for pair in spec.pairs)
        for look in timeline.looks:
            assert look.beside is None or (look.polyp, look.beside) in timeline.pairs
        for index, polyp in enumerate(spec.polyps):
            looks = [look for look in timeline.looks if index in (look.polyp, look.beside)]
            assert sum(look.frames for look in looks) == polyp.visible_frames
            removed_at = timeline.removed[index]
            assert removed_at == looks[-1].end or (
                removed_at is None and polyp.histology_class == "NO POLYP"
            )
            assert sum(look.frames >= LONG for look in looks) >= 2
        assert sorted(polyp for polyp, _, _ in timeline.treated) == list(range(len(spec.polyps)))
        for treated_polyp, first, last in timeline.treated:
            for look in timeline.looks:
                if look.first <= last and look.end > first:
                    assert treated_polyp in (look.polyp, look.beside)
        spans = [span[-2:] for span in (*timeline.treated, *timeline.jets, *timeline.smoke)]
        assert all(0 <= first <= last < spec.n_frames for first, last in spans)


def test_insertion_takes_a_third_to_a_half_and_shows_few_polyps() -> None:
    early = total = empty = 0
    for spec, timeline in timelines("real-colon-sim"):
        assert 0.3 * spec.n_frames <= timeline.turn <= 0.5 * spec.n_frames
        early += sum(look.frames for look in timeline.looks if look.first < timeline.turn)
        total += sum(look.frames for look in timeline.looks)
        if not spec.polyps:
            empty += 1
            events = [*timeline.looks, *timeline.removed, *timeline.treated, *timeline.pairs]
            assert not events
            assert timeline.jets
    assert 0 < early < 0.01 * total
    assert empty == 14


def test_gaps_last_a_fraction_of_a_second_seconds_or_minutes() -> None:
    gaps, inner = [], []
    for spec, timeline in timelines("real-colon-sim"):
        gaps_of_procedure = [(b.first - a.end) / spec.fps for a, b in pairwise(timeline.looks)]
        gaps += gaps_of_procedure
        inner += [gap / mean_gap(spec.fps) * spec.fps for gap in gaps_of_procedure if gap < 30]
    flicker, seconds, minutes = (
        np.mean([low <= gap < high for gap in gaps])
        for low, high in ((0, 0.61), (0.61, 30), (30, 3000))
    )
    assert 0.7 < flicker < 0.9
    assert 0.1 < seconds < 0.3
    assert 0.005 < minutes < 0.05
    assert np.mean(inner) == pytest.approx(1, rel=0.3)  # including a few pauses


def test_looks_that_do_not_fit_into_the_procedure_are_refused() -> None:
    tested_preset = preset("smoke")
    spec = replace(procedure_specs(tested_preset, 0)[0], n_frames=200)
    with pytest.raises(PolyplinkError, match=r"procedure 001-001: \d+ frames of looks do not fit"):
        draw_timeline(np.random.default_rng(0), spec, tested_preset)


# --- Lengths --------------------------------------------------------------------------------


def test_numbers_of_long_looks_follow_a_power_law_with_shrinking_noise() -> None:
    rng = np.random.default_rng(0)
    spread = {}
    for frames in (2000, 23_201):
        draws = np.array([draw_long(rng, frames) for _ in range(4000)])
        assert draws.mean() == pytest.approx(FACTOR * frames**EXPONENT, rel=0.02)
        spread[frames] = draws.std() / draws.mean()
    assert spread[23_201] < 0.03 < 0.1 < spread[2000] < 0.3


def test_long_looks_are_log_normal_and_short_ones_five_times_as_frequent() -> None:
    lengths = look_lengths(np.random.default_rng(0), 200 * 5000, 5000)
    long, short = lengths[lengths >= LONG], lengths[lengths < LONG]
    assert 0.7 < np.log(long).std() < 1.1
    assert len(short) == pytest.approx(4.95 * len(long), rel=0.05)
    assert np.median(short) == 5


@pytest.mark.parametrize("name", ["tiny", "smoke", "small"])
def test_looks_are_within_the_ranges_of_the_preset(name: str) -> None:
    tested_preset = preset(name)
    for spec in procedure_specs(tested_preset, 1):
        for lengths in draw_lengths(np.random.default_rng(0), spec, tested_preset)[0]:
            long, short = (
                lengths[lengths >= tested_preset.long_frames[0]],
                lengths[lengths < tested_preset.long_frames[0]],
            )
            assert tested_preset.long_views[0] <= len(long) <= tested_preset.long_views[1]
            assert long.max() <= tested_preset.long_frames[1]
            assert len(short) <= tested_preset.short_views[1]
            assert np.all(
                (short >= tested_preset.short_frames[0]) & (short <= tested_preset.short_frames[1])
            )


# --- Order ----------------------------------------------------------------------------------

NEVER = Preset("own", (("001-001", 3),), pair_share=0.0, close_share=0.0, return_share=0.0)
LENGTHS = [np.array([40, 5, 60, 7, 90, 50, 8, 45, 6]) + polyp for polyp in range(3)]
BOTH = np.array([33, 9, 70])


def visits_of(tested_preset: Preset, *, pair: bool = False, seed: int = 0) -> list[Visit]:
    polyp = PolypSpec(4.0, "sigma", "HP", "HP", 311)
    pairs = (PairSpec(0, 1, 112),) if pair else ()
    other_fields = ("Olympus", 60, "male", 9.0, (polyp,) * 3, pairs)
    spec = ProcedureSpec("001-001", 9000, 25.0, 64, 56, *other_fields)
    rng = np.random.default_rng(seed)
    return draw_visits(rng, spec, tested_preset, LENGTHS, [BOTH] if pair else [])


def sequence(visits: list[Visit]) -> list[int]:
    """Polyps in the order of their views, without repetitions."""
    polyps = [item.polyp for visit in visits for item in visit]
    return [p for index, p in enumerate(polyps) if index == 0 or polyps[index - 1] != p]


def test_polyps_are_viewed_one_after_the_other() -> None:
    visits = visits_of(NEVER)
    assert sequence(visits) == [0, 1, 2]
    assert [len(visit) for visit in visits] == [9, 9, 9]
    assert all(visit[-1].frames >= LONG for visit in visits)
    assert not any(item.quick for visit in visits for item in visit)


def test_a_pair_is_viewed_together_then_one_by_one() -> None:
    visits = visits_of(NEVER, pair=True)
    assert [{item.polyp for item in visit} for visit in visits] == [{0, 1}, {2}]
    both = [index for index, item in enumerate(visits[0]) if item.beside == 1]
    first = [index for index, i in enumerate(visits[0]) if i.polyp == 0 and i.beside is None]
    second = [index for index, item in enumerate(visits[0]) if item.polyp == 1]
    assert first[0] == 0
    assert max(both) < first[-1] < second[-1] == len(visits[0]) - 1


@pytest.mark.parametrize("seed", range(2))
def test_close_and_return_shares_break_the_order(seed: int) -> None:
    visits = visits_of(replace(NEVER, close_share=1.0), seed=seed)
    assert len(visits) == 2
    quick_items = [item for visit in visits for item in visit if item.quick]
    assert len({item.polyp for item in quick_items}) == 2
    assert sum(item.frames for item in quick_items) <= 2 * 15 * 25
    assert len(quick_items) <= 6
    assert len(sequence(visits)) >= 4
    visits = visits_of(replace(NEVER, return_share=1.0), seed=seed)
    assert sequence(visits) in ([0, 1, 0, 2], [0, 1, 2, 1])
    assert len(visits) == 4


# --- Events ---------------------------------------------------------------------------------

POLYPS = (PolypSpec(9.0, "sigma", "AD", "AD", 4000), PolypSpec(2.0, "sigma", "HP", "HP", 400))
SPEC = ProcedureSpec("001-001", 30_000, 25.0, 64, 56, "Olympus", 60, "male", 9.0, POLYPS)
LOOKS = [Look(0, 9000, 3000), Look(1, 12_010, 190), Look(0, 12_300, 700), Look(1, 13_005, 200)]


@pytest.mark.parametrize("seed", range(2))
def test_treatment_covers_the_end_of_the_last_looks(seed: int) -> None:
    first, second = draw_treatment(np.random.default_rng(seed), SPEC, LOOKS, [13_000, 13_205])
    assert first[0] == 0
    assert 12_300 <= first[1] < 13_000
    assert 12_999 <= first[2] < 13_005  # the next look is at the other polyp
    assert second[0] == 1
    assert second[1] >= 13_205 - 100  # a quarter of its frames
    assert 13_204 <= second[2] <= 13_205 + 25
    assert draw_treatment(np.random.default_rng(seed), SPEC, [], [None, None]) == ()


def test_jets_are_short_and_do_not_overlap() -> None:
    jets_by_seed = [draw_jets(np.random.default_rng(seed), SPEC) for seed in range(20)]
    jets = [jet for jets_of_seed in jets_by_seed for jet in jets_of_seed]
    assert len(jets) == pytest.approx(20 * 30_000 / 25 / 40, rel=0.15)
    assert all(15 <= last - first + 1 <= 75 or last == 29_999 for first, last in jets)
    assert all(b[0] > a[1] + 1 for jets_of_seed in jets_by_seed for a, b in pairwise(jets_of_seed))


def test_removing_large_polyps_makes_smoke() -> None:
    smoke = [draw_smoke(np.random.default_rng(seed), SPEC, [20_000, 500]) for seed in range(50)]
    assert all(any(a < 20_000 <= b for a, b in spans) for spans in smoke)
    assert sum(len(spans) == 2 for spans in smoke) < 20
    assert draw_smoke(np.random.default_rng(0), SPEC, [None, None]) == ()
    short = replace(SPEC, n_frames=500)  # events are short in short procedures
    spans = draw_smoke(np.random.default_rng(0), short, [250, None])
    assert spans
    assert all(last - first <= 20 for first, last in spans)
