from collections.abc import Mapping
from itertools import permutations

from hypothesis import given

from polyplink.report.contents import ReportedProcedure
from polyplink.report.polyps import HUES, TEXTURES, letters, look, match
from tests.report.sample import procedure, procedures


def most_shared_frames(case: ReportedProcedure) -> int:
    """Largest number of shared frames over all one-to-one pairings."""
    counted = [polyp.polyp for polyp in case.counted.groups]
    partners = [*sorted({*case.true_polyps.values()}), *[None] * len(counted)]
    orders = permutations(partners, len(counted))
    return max(shared_frames(case, dict(zip(counted, order, strict=True))) for order in orders)


def shared_frames(case: ReportedProcedure, partner: Mapping[str, str | None]) -> int:
    """Frames in which a counted polyp and its partner, the true polyp, are the same tracklet."""
    return sum(
        t.last_frame - t.first_frame + 1
        for polyp in case.counted.groups
        for t in polyp.tracklets
        if t.tracklet_id in case.true_polyps
        and case.true_polyps[t.tracklet_id] == partner[polyp.polyp]
    )


@given(procedures())
def test_the_pairing_maximises_shared_frames(case: ReportedProcedure) -> None:
    partner = {name: polyp.partner for name, polyp in match(case).counted.items()}
    assert shared_frames(case, partner) == most_shared_frames(case)


@given(procedures())
def test_the_pairing_is_one_to_one_and_partners_look_alike(case: ReportedProcedure) -> None:
    matching = match(case)
    assert list(matching.counted) == [polyp.polyp for polyp in case.counted.groups]
    assert {*matching.true} == {*case.true_polyps.values()}
    for counted_polyp in matching.counted.values():
        if counted_polyp.partner is not None:
            true_polyp = matching.true[counted_polyp.partner]
            assert true_polyp.partner == counted_polyp.name
            assert true_polyp.look == counted_polyp.look
    polyps = [*matching.counted.values(), *(p for p in matching.true.values() if not p.partner)]
    assert len({p.look for p in polyps}) == len(polyps)
    for polyp in case.counted.groups:
        for tracklet in polyp.tracklets:
            true = case.true_polyps.get(tracklet.tracklet_id)
            is_right = matching.counted[polyp.polyp].partner == true
            assert matching.is_wrong(tracklet) == (true is not None and not is_right)


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
