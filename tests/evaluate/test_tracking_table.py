import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.bench.tracking import agree, trackeval_figures
from polyplink.evaluate.tracking_scores import tracking_figures
from polyplink.evaluate.tracking_table import (
    look_at,
    score_table,
    true_and_found,
    without_doubles,
)
from polyplink.evaluate.tracklet_boxes import TrackletBoxes
from tests.evaluate.scenes import procedure


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_the_table_form_equals_trackeval_where_boxes_are_apart(seed: int) -> None:
    tracklets, labels = procedure(seed, touching=False)
    truth = look_at("v", tracklets)
    found = truth.score(labels)
    assert (found.form, found.doubled) == ("table", 0)
    scene = true_and_found(tracklets, truth.tracks(labels).track)
    assert agree(found.counts, trackeval_figures(scene))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.booleans())
def test_what_the_table_cannot_say_is_scored_as_trackeval_does(seed: int, doubled: bool) -> None:
    tracklets, labels = procedure(seed, touching=True, doubled=doubled)
    truth = look_at("v", tracklets)
    found = truth.score(labels)
    left, rows = without_doubles(tracklets, truth.met)
    scene = true_and_found(left, truth.tracks(labels).track[rows])
    assert agree(found.counts, trackeval_figures(scene))
    polyp = tracklets.polyp[truth.met.pairs]
    unsure = truth.met.touching.any() or (polyp[:, 0] == polyp[:, 1]).any()
    assert found.form == ("general" if unsure else "table")


def crossed() -> tuple[TrackletBoxes, np.ndarray]:
    """Two polyps that overlap for a moment, and clusters that take one for the other."""
    lengths, polyp = (20, 2, 20, 2), (0, 1, 1, 0)
    starts, corners = (0, 30, 40, 30), (0.0, 0.5, 0.5, 0.0)
    frame = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
    box = np.concatenate(
        [np.tile([x, 0.0, 9.0, 9.0], (n, 1)) for x, n in zip(corners, lengths, strict=True)]
    )
    offset = np.concatenate([[0], np.cumsum(lengths)])
    return TrackletBoxes(np.array(polyp), offset, frame, box), np.array([0, 0, 1, 1])


def test_boxes_that_could_swap_need_the_general_form() -> None:
    tracklets, labels = crossed()
    truth = look_at("v", tracklets)
    found = truth.score(labels)
    assert found.form == "general"
    by_table = tracking_figures(score_table(tracklets, truth.tracks(labels).track))
    # HOTA matches each overlapping box with the other polyp's: the table would be wrong.
    assert float(tracking_figures(found.counts)["AssA"]) > float(by_table["AssA"]) + 0.01


def test_one_box_of_a_polyp_in_a_frame_is_kept() -> None:
    frame, box = np.array([0, 1, 2, 1, 2, 3]), np.ones((6, 4))
    tracklets = TrackletBoxes(np.array([5, 5]), np.array([0, 3, 6]), frame, box)
    truth = look_at("v", tracklets)
    assert not truth.table
    left, rows = without_doubles(tracklets, truth.met)
    assert left.frame.tolist() == [0, 1, 2, 3]
    assert (left.offset.tolist(), rows.tolist()) == ([0, 3, 4], [0, 1])
    found = truth.score(np.array([0, 0]))
    assert (found.doubled, found.split, found.tracks) == (2, 1, 2)
    assert float(found.counts.true) == 4


def test_known_values_of_a_table() -> None:
    # Polyp 0: tracklets of 6 and 4 boxes; polyp 1: one of 10. Clusters: {6}, {4, 10}.
    offset = np.array([0, 6, 10, 20])
    tracklets = TrackletBoxes(np.array([0, 0, 1]), offset, np.arange(20), np.ones((20, 4)))
    found = tracking_figures(look_at("v", tracklets).score(np.array([0, 1, 1])).counts)
    assert float(found["AssA"]) == pytest.approx((6 * 6 / 10 + 4 * 4 / 20 + 10 * 10 / 14) / 20)
    assert float(found["IDF1"]) == pytest.approx(16 / 20)
    assert (float(found["IDSW"]), float(found["DetA"])) == (1.0, 1.0)
