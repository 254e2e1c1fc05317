from itertools import permutations

from hypothesis import given

from polyplink.report.polyps import HUES, TEXTURES, letters, look, match
from polyplink.report.records import Procedure
from tests.report.sample import procedure, procedures


def most_shared(made: Procedure) -> int:
    """Best number of shared frames over every one-to-one pairing, tried one by one."""
    known = [t for t in made.tracklets if t.polyp_id is not None]
    counted = sorted({t.predicted for t in known})
    true = sorted({t.polyp_id for t in known if t.polyp_id is not None})
    places = [*true, *[None] * len(counted)]
    best = 0
    for order in permutations(places, len(counted)):
        partner = dict(zip(counted, order, strict=True))
        frames = sum(t.last - t.first + 1 for t in known if partner[t.predicted] == t.polyp_id)
        best = max(best, frames)
    return best


@given(procedures())
def test_pairing_shares_the_most_frames(made: Procedure) -> None:
    matching = match(made)
    shared = sum(
        t.last - t.first + 1
        for t in made.tracklets
        if t.polyp_id is not None and matching.counted[t.predicted].partner == t.polyp_id
    )
    assert shared == most_shared(made)


@given(procedures())
def test_pairing_is_one_to_one_and_looks_agree(made: Procedure) -> None:
    matching = match(made)
    assert set(matching.counted) == {t.predicted for t in made.tracklets}
    assert set(matching.true) == {t.polyp_id for t in made.tracklets} - {None}
    for one in matching.counted.values():
        if one.partner is not None:
            other = matching.true[one.partner]
            assert other.partner == one.name
            assert other.look == one.look
    polyps = [*matching.counted.values(), *(p for p in matching.true.values() if not p.partner)]
    assert len({p.look for p in polyps}) == len(polyps)
    for tracklet in made.tracklets:
        right = matching.counted[tracklet.predicted].partner == tracklet.polyp_id
        assert matching.is_wrong(tracklet) == (tracklet.polyp_id is not None and not right)


def test_numbers_go_by_first_sight_and_a_split_is_wrong() -> None:
    made = procedure()
    matching = match(made)
    assert {name: p.label for name, p in matching.counted.items()} == {"x": "1", "z": "2", "y": "3"}
    assert {name: p.label for name, p in matching.true.items()} == {"a": "A", "b": "B"}
    assert {name: p.partner for name, p in matching.counted.items()} == {
        "x": "a",
        "y": "b",
        "z": None,
    }
    assert [t.tracklet_id for t in made.tracklets if matching.is_wrong(t)] == ["t2"]
    assert [letters(i) for i in (25, 26, 701, 702)] == ["Z", "AA", "ZZ", "AAA"]
    many = len(HUES) * len(TEXTURES)
    assert len({look(index) for index in range(many + 1)}) == many
