import itertools

import numpy as np

from polyplink.simulate.course.gaps import BLINK_GAP, FREE
from polyplink.simulate.course.route import Course, draw_phase
from polyplink.simulate.course.timeline import Look
from tests.simulate.plans import mini_plan


def test_looks_become_arrays() -> None:
    looks = [Look(0, 3, 2), Look(2, 9, 1, 1)]
    course = Course.of(looks, [(1, 2)])
    assert course.beside.tolist() == [-1, 1]
    assert course.slot.tolist() == [0, 1]
    which, frames = course.times
    assert which.tolist() == [0, 0, 1]
    assert frames.tolist() == [3, 4, 9]
    assert course.some(np.array([1])).first.tolist() == [9]


def test_the_wave_runs_on_at_a_few_a_minute() -> None:
    phase = draw_phase(np.random.default_rng(0), 3000, 30.0)
    assert np.all(np.abs(np.diff(phase)) < 0.05)
    assert 2 < (phase[-1] - phase[0]) / (2 * np.pi) < 12


def test_frames_of_looks_are_marked_and_never_blink() -> None:
    plan = mini_plan()
    for index, look in enumerate(plan.timeline.looks):
        assert np.all(plan.looks[look.first : look.end] == index)
    assert (plan.looks >= 0).sum() == sum(look.frames for look in plan.timeline.looks)
    assert not plan.conditions.blink[plan.looks >= 0].any()


def test_short_gaps_blink_and_cuts_are_hidden_by_blinks() -> None:
    plan = mini_plan()
    looks = plan.timeline.looks
    gaps = [(a.end, b.first) for a, b in itertools.pairwise(looks)]
    assert any(stop - start <= BLINK_GAP for start, stop in gaps)
    for start, stop in gaps:
        if stop - start <= BLINK_GAP:
            assert plan.conditions.blink[start:stop].all()
    jump = np.linalg.norm(np.diff(plan.path.positions, axis=0), axis=1)
    cut = np.flatnonzero(jump > 0.5)
    assert len(cut)
    blink = plan.conditions.blink
    assert np.all(blink[cut] | blink[cut + 1])


def test_the_way_is_far_up_the_tube_and_turns_are_near_their_polyps() -> None:
    plan = mini_plan()
    z = plan.path.positions[:, 2]
    first = plan.timeline.looks[0].first
    assert np.all(z[: first // 2] >= FREE - 1e-6)
    for look in plan.timeline.looks:
        there = float(plan.lumps[look.polyp].centre[2])
        assert np.abs(z[look.first : look.end] - there).max() < 2.5


def test_exposures_go_on_from_look_to_look() -> None:
    plan = mini_plan()
    looks = plan.timeline.looks
    start, stop = looks[1].end, looks[2].first
    between = plan.path.exposures[start:stop]
    ends = plan.path.exposures[[start - 1, stop]]
    assert np.all((between >= ends.min() - 1e-9) & (between <= ends.max() + 1e-9))
