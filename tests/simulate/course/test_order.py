from dataclasses import replace

import numpy as np
import pytest

from polyplink.simulate import Preset
from polyplink.simulate.course.laws import Counts
from polyplink.simulate.course.lengths import Lengths
from polyplink.simulate.course.order import Visit, draw_order
from polyplink.simulate.specs import PairSpec, PolypSpec, ProcedureSpec

NEVER = Preset("own", (("001-001", 3),), pair_share=0.0, close_share=0.0, return_share=0.0)
LENGTHS = tuple(np.array([40, 5, 60, 7, 90, 50, 8, 45, 6]) + polyp for polyp in range(3))
BOTH = np.array([33, 9, 70])


def spec(*pairs: PairSpec) -> ProcedureSpec:
    polyp = PolypSpec(4.0, "sigma", "HP", "HP", 311)
    return ProcedureSpec(
        "001-001", 9000, 25.0, 64, 56, "Olympus", 60, "male", 9.0, (polyp,) * 3, pairs
    )


def order(preset: Preset, *, pair: bool = False, seed: int = 0) -> list[Visit]:
    one = spec(PairSpec(0, 1, 112)) if pair else spec()
    both: tuple[Counts, ...] = (BOTH,) if pair else ()
    return draw_order(np.random.default_rng(seed), one, preset, Lengths(LENGTHS, both))


def runs(visits: list[Visit]) -> list[int]:
    """Polyps in the order in which they are looked at, repetitions left out."""
    polyps = [item.polyp for visit in visits for item in visit]
    return [p for index, p in enumerate(polyps) if index == 0 or polyps[index - 1] != p]


def test_one_polyp_comes_after_the_other() -> None:
    visits = order(NEVER)
    assert runs(visits) == [0, 1, 2]
    assert [len(visit) for visit in visits] == [9, 9, 9]
    assert all(visit[-1].frames >= 30 for visit in visits)
    assert not any(item.quick for visit in visits for item in visit)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("shares", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_no_look_is_lost_or_invented(seed: int, pair: bool, shares: tuple[float, float]) -> None:
    preset = replace(NEVER, close_share=shares[0], return_share=shares[1])
    items = [item for visit in order(preset, pair=pair, seed=seed) for item in visit]
    for polyp in range(3):
        own = sorted(i.frames for i in items if i.polyp == polyp and i.beside is None)
        assert own == sorted(LENGTHS[polyp].tolist())
    both = [(i.polyp, i.frames) for i in items if i.beside == 1]
    assert sorted(both) == [(0, n) for n in sorted(BOTH.tolist())] * pair


def test_two_in_one_view_are_looked_at_together_then_treated_one_by_one() -> None:
    visits = order(NEVER, pair=True)
    assert [{item.polyp for item in visit} for visit in visits] == [{0, 1}, {2}]
    both = [index for index, item in enumerate(visits[0]) if item.beside == 1]
    first = [index for index, i in enumerate(visits[0]) if i.polyp == 0 and i.beside is None]
    second = [index for index, item in enumerate(visits[0]) if item.polyp == 1]
    assert first[0] == 0
    assert max(both) < first[-1] < second[-1] == len(visits[0]) - 1


@pytest.mark.parametrize("seed", range(10))
def test_two_close_in_time_alternate_within_half_a_minute(seed: int) -> None:
    visits = order(replace(NEVER, close_share=1.0), seed=seed)
    assert len(visits) == 2
    mixed = [item for visit in visits for item in visit if item.quick]
    assert len({item.polyp for item in mixed}) == 2
    assert sum(item.frames for item in mixed) <= 2 * 15 * 25
    assert len(mixed) <= 6
    assert len(runs(visits)) >= 4


@pytest.mark.parametrize("seed", range(10))
def test_a_polyp_is_gone_back_to_after_another_visit(seed: int) -> None:
    visits = order(replace(NEVER, return_share=1.0), seed=seed)
    assert runs(visits) in ([0, 1, 0, 2], [0, 1, 2, 1])
    assert len(visits) == 4
