import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.tracklet_boxes import TrackletBoxes, lanes, meetings
from tests.evaluate.scenes import procedure


def boxes_of(tracklets: TrackletBoxes, i: int) -> dict[int, np.ndarray]:
    rows = range(tracklets.offset[i], tracklets.offset[i + 1])
    return {int(tracklets.frame[row]): tracklets.box[row] for row in rows}


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[:2] + a[2:], b[:2] + b[2:])
    return bool((high > low).all())


@settings(deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_meetings_equal_a_naive_loop(seed: int, touching: bool, doubled: bool) -> None:
    tracklets, _ = procedure(seed, touching=touching, doubled=doubled)
    n = tracklets.polyp.size
    expected = {}
    for i in range(n):
        for j in range(i + 1, n):
            a, b = boxes_of(tracklets, i), boxes_of(tracklets, j)
            common = a.keys() & b.keys()
            if common:
                expected[i, j] = any(overlap(a[f], b[f]) for f in common)
    met = meetings(tracklets)
    found = {
        (min(pair), max(pair)): bool(touch)
        for pair, together, touch in zip(
            met.pairs.tolist(), met.together, met.touching, strict=True
        )
        if together
    }
    assert found == expected


@settings(deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_a_track_is_in_one_place_and_in_one_cluster(seed: int, doubled: bool) -> None:
    tracklets, labels = procedure(seed, touching=True, doubled=doubled)
    made = lanes(labels, meetings(tracklets))
    owner = tracklets.owner()
    places = list(zip(made.track[owner].tolist(), tracklets.frame.tolist(), strict=True))
    assert len(set(places)) == len(places)
    for track in np.unique(made.track):
        assert np.unique(labels[made.track == track]).size == 1
    assert sorted(set(made.track.tolist())) == list(range(made.track.max() + 1))
    if not made.split:
        assert np.unique(made.track).size == np.unique(labels).size


def test_the_later_of_two_at_one_time_moves_to_a_track_of_its_own() -> None:
    box = np.tile([0.0, 0.0, 5.0, 5.0], (9, 1))
    frame = np.array([0, 1, 2, 1, 2, 3, 4, 5, 6])
    tracklets = TrackletBoxes(np.array([0, 1, 0]), np.array([0, 3, 6, 9]), frame, box)
    made = lanes(np.array([4, 4, 4]), meetings(tracklets))
    assert (made.track.tolist(), made.split) == ([0, 1, 0], 1)


def test_boxes_that_are_no_tracklets_are_refused() -> None:
    box = np.ones((3, 4))
    polyp = np.array([0])
    with pytest.raises(PolyplinkError, match=r"frame 1 .box 2. does not come after"):
        TrackletBoxes(polyp, np.array([0, 3]), np.array([0, 1, 1]), box)
    for offset in ([0, 2], [1, 3], [0, 1, 3]):
        with pytest.raises(PolyplinkError, match="1 tracklets, offsets"):
            TrackletBoxes(polyp, np.array(offset), np.array([0, 1, 2]), box)
    with pytest.raises(PolyplinkError, match="2 tracklets"):
        TrackletBoxes(np.array([0, 0]), np.array([0, 3, 3]), np.array([0, 1, 2]), box)


def test_some_tracklets_keep_their_boxes() -> None:
    tracklets, _ = procedure(3, touching=True)
    rows = np.arange(tracklets.polyp.size)[::-1]
    part = tracklets.take(rows)
    assert part.polyp.tolist() == tracklets.polyp[rows].tolist()
    for place, row in enumerate(rows):
        a, b = boxes_of(part, place), boxes_of(tracklets, int(row))
        assert a.keys() == b.keys()
        assert all((a[f] == b[f]).all() for f in a)
    assert tracklets.take(rows[:0]).frame.size == 0
