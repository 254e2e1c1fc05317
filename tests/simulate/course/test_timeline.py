from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.simulate import PRESETS, Preset, preset, procedure_specs, real_colon_sim
from polyplink.simulate.course.timeline import Look, Timeline, draw_timeline
from polyplink.simulate.specs import ProcedureSpec
from polyplink.simulate.streams import stream


def courses(wanted: Preset, seed: int) -> Iterator[tuple[ProcedureSpec, Timeline]]:
    for spec in procedure_specs(wanted, seed):
        yield spec, draw_timeline(stream(seed, spec.procedure_id, "course"), spec, wanted)


@pytest.mark.parametrize("name", list(PRESETS))
@pytest.mark.parametrize("seed", range(4))
def test_properties_hold_in_every_procedure(name: str, seed: int) -> None:
    for spec, timeline in courses(preset(name), seed):
        assert timeline.n_frames == spec.n_frames
        assert all(a.end < b.first for a, b in pairwise(timeline.looks))
        if timeline.looks:
            assert timeline.looks[0].first >= 0
            assert timeline.looks[-1].end <= spec.n_frames
        check_polyps(spec, timeline)
        check_events(spec, timeline)


def check_polyps(spec: ProcedureSpec, timeline: Timeline) -> None:
    assert timeline.pairs == tuple((pair.first, pair.second) for pair in spec.pairs)
    for look in timeline.looks:
        assert look.beside is None or (look.polyp, look.beside) in timeline.pairs
    for index, polyp in enumerate(spec.polyps):
        looks = [look for look in timeline.looks if index in (look.polyp, look.beside)]
        assert sum(look.frames for look in looks) == polyp.visible_frames
        gone = timeline.removed[index]
        assert gone == looks[-1].end or (gone is None and polyp.histology_class == "NO POLYP")
        assert sum(look.frames >= 30 for look in looks) >= 2


def check_events(spec: ProcedureSpec, timeline: Timeline) -> None:
    assert sorted(polyp for polyp, _, _ in timeline.treated) == list(range(len(spec.polyps)))
    for polyp, first, last in timeline.treated:
        assert 0 <= first <= last < spec.n_frames
        for look in timeline.looks:
            if look.first <= last and look.end > first:
                assert polyp in (look.polyp, look.beside)
    for first, last in (*timeline.jets, *timeline.smoke):
        assert 0 <= first <= last < spec.n_frames


@pytest.mark.parametrize("seed", range(3))
def test_frames_with_a_box_are_as_asked(seed: int) -> None:
    for spec, timeline in courses(real_colon_sim(), seed):
        assert sum(look.frames for look in timeline.looks) == spec.boxed_frames


def test_insertion_takes_a_third_to_a_half_and_shows_little() -> None:
    early = total = 0
    for spec, timeline in courses(real_colon_sim(), 0):
        assert 0.3 * spec.n_frames <= timeline.turn <= 0.5 * spec.n_frames
        early += sum(look.frames for look in timeline.looks if look.first < timeline.turn)
        total += sum(look.frames for look in timeline.looks)
    assert 0 < early < 0.01 * total


def interleaved(timeline: Timeline, fps: float) -> bool:
    """Whether two polyps are looked at in turn, a b a or so, within a minute."""
    looks = [look for look in timeline.looks if look.first >= timeline.turn]
    for place, look in enumerate(looks):
        near = [n.polyp for n in looks[place:] if n.first - look.end < 60 * fps]
        turns = [p for k, p in enumerate(near) if k == 0 or near[k - 1] != p]
        if len(turns) > 2 and turns[0] == turns[2]:
            return True
    return False


def gone_back_to(timeline: Timeline) -> bool:
    """Whether a polyp is seen after the last look at another one that was first seen later."""
    later = [look for look in timeline.looks if look.first >= timeline.turn]
    firsts = [
        [look.first for look in later if polyp in (look.polyp, look.beside)]
        for polyp in range(len(timeline.removed))
    ]
    return any(own[0] < other[0] and other[-1] < own[-1] for own, other in permutations(firsts, 2))


def test_the_rule_is_broken_in_the_share_asked_for() -> None:
    wanted = replace(real_colon_sim(), pair_share=0.0, close_share=0.0, return_share=0.0)
    several = [(s, t) for s, t in courses(wanted, 0) if len(s.polyps) > 1]
    assert not any(gone_back_to(t) or interleaved(t, s.fps) for s, t in several)
    for name, broken in (("close_share", interleaved), ("return_share", None)):
        some = [
            broken(t, s.fps) if broken else gone_back_to(t)
            for seed in range(3)
            for s, t in courses(replace(wanted, **{name: 0.4}), seed)  # type: ignore[arg-type]
            if len(s.polyps) > 1
        ]
        assert np.mean(some) == pytest.approx(0.4, abs=0.15)


def test_a_procedure_without_polyps_has_no_looks() -> None:
    empty = [t for s, t in courses(real_colon_sim(), 0) if not s.polyps]
    assert len(empty) == 14
    assert not any(t.looks or t.removed or t.treated or t.pairs for t in empty)
    assert all(t.turn > 0 and t.jets for t in empty)


def test_gaps_are_flickers_seconds_and_minutes() -> None:
    gaps = [
        (b.first - a.end) / s.fps
        for s, t in courses(real_colon_sim(), 0)
        for a, b in pairwise(t.looks)
    ]
    flicker, seconds, minutes = (
        np.mean([low <= gap < high for gap in gaps])
        for low, high in ((0, 0.61), (0.61, 30), (30, 3000))
    )
    assert 0.7 < flicker < 0.9
    assert 0.1 < seconds < 0.3
    assert 0.005 < minutes < 0.05


def test_too_little_room_is_named() -> None:
    wanted = preset("smoke")
    spec = replace(procedure_specs(wanted, 0)[0], n_frames=200)
    with pytest.raises(PolyplinkError, match=r"procedure 001-001: \d+ frames of looks do not fit"):
        draw_timeline(np.random.default_rng(0), spec, wanted)


def test_a_look_ends_after_its_last_frame() -> None:
    assert Look(0, 10, 5).end == 15
