from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from polyplink.simulate.course.events import draw_jets, draw_smoke, draw_treatment
from polyplink.simulate.specs import PolypSpec, ProcedureSpec

POLYPS = (PolypSpec(9.0, "sigma", "AD", "AD", 4000), PolypSpec(2.0, "sigma", "HP", "HP", 400))
SPEC = ProcedureSpec("001-001", 30_000, 25.0, 64, 56, "Olympus", 60, "male", 9.0, POLYPS)


@pytest.mark.parametrize("seed", range(20))
def test_treatment_covers_the_end_of_the_last_looks(seed: int) -> None:
    looks = [(0, 9000, 12_000), (1, 12_010, 12_200), (0, 12_300, 13_000), (1, 13_005, 13_205)]
    treated = draw_treatment(np.random.default_rng(seed), SPEC, looks, [13_000, 13_205])
    (first, second) = treated
    assert first[0] == 0
    assert 12_300 <= first[1] < 13_000
    assert 12_999 <= first[2] < 13_005  # the next look is at the other one
    assert second[0] == 1
    assert second[1] >= 13_205 - 100  # a quarter of its frames
    assert 13_204 <= second[2] <= 13_205 + 25


def test_what_is_never_seen_is_not_treated() -> None:
    rng = np.random.default_rng(0)
    assert draw_treatment(rng, SPEC, [(1, 10, 410)], [None, 410])[0][0] == 1
    assert draw_treatment(rng, SPEC, [], [None, None]) == ()


def test_jets_are_short_and_apart() -> None:
    jets = [jet for seed in range(20) for jet in draw_jets(np.random.default_rng(seed), SPEC)]
    assert len(jets) == pytest.approx(20 * 30_000 / 25 / 40, rel=0.15)
    assert all(15 <= last - first + 1 <= 75 or last == 29_999 for first, last in jets)
    one = draw_jets(np.random.default_rng(0), SPEC)
    assert all(b[0] > a[1] + 1 for a, b in pairwise(one))


def test_large_polyps_smoke_when_they_go() -> None:
    smoke = [draw_smoke(np.random.default_rng(seed), SPEC, [20_000, 500]) for seed in range(50)]
    assert all(any(a < 20_000 <= b for a, b in spans) for spans in smoke)
    assert sum(len(spans) == 2 for spans in smoke) < 20
    assert draw_smoke(np.random.default_rng(0), SPEC, [None, None]) == ()


def test_events_are_short_in_short_procedures() -> None:
    short = replace(SPEC, n_frames=500)
    for first, last in draw_smoke(np.random.default_rng(0), short, [250, None]):
        assert last - first <= 20
