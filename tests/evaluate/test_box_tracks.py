from typing import Any

import numpy as np
import pytest
from trackeval.datasets import MotChallenge2DBox

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.box_tracks import BoxTracks, overlaps
from tests.evaluate.scenes import scene


def test_boxes_come_in_the_order_of_frames() -> None:
    made = BoxTracks.of([3, 1, 1], ["b", "a", "b"], [[0, 0, 1, 1], [1, 0, 1, 1], [2, 0, 1, 1]])
    assert made.frame.tolist() == [1, 1, 3]
    assert made.track.tolist() == [0, 1, 1]
    assert made.box[:, 0].tolist() == [1, 2, 0]
    assert made.tracks == 2


def test_bad_boxes_are_refused() -> None:
    box = [0, 0, 1, 1]
    cases: list[tuple[tuple[Any, Any, Any], str]] = [
        (([1], ["a"], [box, box]), "1 frames, 1 tracks and 2 boxes"),
        (([1, 1], ["a", "a"], [box, box]), "track 'a' is in frame 1 twice"),
        (([7], ["a"], [[0, 0, 0, 1]]), "of frame 7 has no area"),
        (([7], ["a"], [[0, np.nan, 1, 1]]), "of frame 7 has no area"),
    ]
    for given, says in cases:
        with pytest.raises(PolyplinkError, match=says):
            BoxTracks.of(*given)


@pytest.mark.parametrize("seed", range(5))
def test_overlaps_are_those_of_trackeval_frame_by_frame(seed: int) -> None:
    true, found = scene(seed)
    pairs = overlaps(true, found)
    table = np.zeros((true.frame.size, found.frame.size))
    table[pairs.true, pairs.found] = pairs.similarity
    every = MotChallenge2DBox._calculate_box_ious(true.box, found.box)
    same = true.frame[:, None] == found.frame[None, :]
    np.testing.assert_allclose(table, np.where(same, every, 0.0), atol=1e-12)
    common = np.intersect1d(true.frame, found.frame)
    assert true.frame[pairs.true_rows[:, 0]].tolist() == common.tolist()
    assert found.frame[pairs.found_rows[:, 1] - 1].tolist() == common.tolist()
