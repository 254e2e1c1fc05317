from itertools import permutations

from hypothesis import given

from polyplink.report.contents import ReportedProcedure
from polyplink.report.polyps import HUES, TEXTURES, letters, look, match
from tests.report.sample import procedure, procedures


def most_shared_frames(case: ReportedProcedure) -> int:
    """Largest number of shared frames over all one-to-one pairings."""
    known = [t for t in case.tracklets if t.polyp_id is not None]
    counted = sorted({t.predicted for t in known})
    true = sorted({t.polyp_id for t in known if t.polyp_id is not None})
    partners = [*true, *[None] * len(counted)]
    best = 0
    for order in permutations(partners, len(counted)):
        partner = dict(zip(counted, order, strict=True))
        frames = sum(t.last - t.first + 1 for t in known if partner[t.predicted] == t.polyp_id)
        best = max(best, frames)
    return best


@given(procedures())
def test_the_pairing_maximises_shared_frames(case: ReportedProcedure) -> None:
    matching = match(case)
    shared = sum(
        t.last - t.first + 1
        for t in case.tracklets
        if t.polyp_id is not None and matching.counted[t.predicted].partner == t.polyp_id
    )
    assert shared == most_shared_frames(case)


@given(procedures())
def test_the_pairing_is_one_to_one_and_partners_look_alike(case: ReportedProcedure) -> None:
    matching = match(case)
    assert set(matching.counted) == {t.predicted for t in case.tracklets}
    assert set(matching.true) == {t.polyp_id for t in case.tracklets} - {None}
    for counted_polyp in matching.counted.values():
        if counted_polyp.partner is not None:
            true_polyp = matching.true[counted_polyp.partner]
            assert true_polyp.partner == counted_polyp.name
            assert true_polyp.look == counted_polyp.look
    polyps = [*matching.counted.values(), *(p for p in matching.true.values() if not p.partner)]
    assert len({p.look for p in polyps}) == len(polyps)
    for tracklet in case.tracklets:
        is_right = matching.counted[tracklet.predicted].partner == tracklet.polyp_id
        assert matching.is_wrong(tracklet) == (tracklet.polyp_id is not None and not is_right)


def test_labels_are_in_the_order_of_first_appearance_and_a_split_is_wrong() -> None:
    case = procedure()
    matching = match(case)
    assert {name: p.label for name, p in matching.counted.items()} == {"x": "1", "z": "2", "y": "3"}
    assert {name: p.label for name, p in matching.true.items()} == {"a": "A", "b": "B"}
    assert {name: p.partner for name, p in matching.counted.items()} == {
        "x": "a",
        "y": "b",
        "z": None,
    }
    assert [t.tracklet_id for t in case.tracklets if matching.is_wrong(t)] == ["t2"]
    assert [letters(i) for i in (25, 26, 701, 702)] == ["Z", "AA", "ZZ", "AAA"]
    many = len(HUES) * len(TEXTURES)
    assert len({look(index) for index in range(many + 1)}) == many
