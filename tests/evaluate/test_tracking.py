import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.bench.tracking import agree, trackeval_figures
from polyplink.evaluate.box_tracks import BoxTracks
from polyplink.evaluate.tracking import best_matching, score_tracks
from polyplink.evaluate.tracking_scores import tracking_figures
from tests.evaluate.scenes import scene


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 7))
def test_figures_equal_trackeval_on_random_scenes(seed: int, frames: int, crowd: int) -> None:
    true, found = scene(seed, frames=frames, crowd=crowd)
    if true.frame.size:
        assert agree(score_tracks(true, found), trackeval_figures((true, found)))


def figures(true: BoxTracks, found: BoxTracks) -> dict[str, float]:
    return {name: float(v) for name, v in tracking_figures(score_tracks(true, found)).items()}


def test_a_track_cut_in_two_halves() -> None:
    box = np.tile([0.0, 0.0, 10.0, 10.0], (10, 1))
    true = BoxTracks.of(range(10), [0] * 10, box)
    found = figures(true, BoxTracks.of(range(10), [1] * 5 + [2] * 5, box))
    # Every pair: 5 frames in common, 10 true, 5 found. AssA = 5 / 10; IDF1 = 2 x 5 / (10 + 10).
    expected = {"DetA": 1.0, "AssA": 0.5, "AssPr": 1.0, "AssRe": 0.5, "HOTA": np.sqrt(0.5)}
    expected |= {"IDF1": 0.5, "IDP": 0.5, "IDR": 0.5, "IDSW": 1.0, "MOTA": 0.9, "LocA": 1.0}
    assert found == pytest.approx(expected)


def test_two_polyps_in_one_track_and_a_shifted_box() -> None:
    # Two polyps one after the other under one track; boxes shifted to an IoU of 6 / 14.
    true = BoxTracks.of(range(4), [0, 0, 1, 1], np.tile([0.0, 0.0, 10.0, 1.0], (4, 1)))
    found = figures(true, BoxTracks.of(range(4), [0] * 4, np.tile([4.0, 0.0, 10.0, 1.0], (4, 1))))
    passed = 8 / 19  # of the thresholds 0.05 ... 0.95, those up to 0.40
    assert found["DetA"] == pytest.approx(passed)
    assert found["AssA"] == pytest.approx(passed * 0.5)
    assert found["AssPr"] == pytest.approx(passed * 0.5)
    assert found["AssRe"] == pytest.approx(passed * 1.0)
    assert (found["IDF1"], found["IDSW"]) == (0.0, 0.0)  # nothing at IoU 0.5
    assert found["MOTA"] == pytest.approx(-1.0)


def test_identical_boxes_that_compete_are_matched_as_trackeval_does() -> None:
    rng = np.random.default_rng(3)
    frame = np.repeat(np.arange(30), 3)
    box = np.tile([0.0, 0.0, 8.0, 8.0], (90, 1)) + np.repeat(rng.integers(0, 3, (30, 1)), 3, axis=0)
    true = BoxTracks.of(frame, np.tile([0, 1, 2], 30), box)
    found = BoxTracks.of(frame, np.concatenate([rng.permutation(3) for _ in range(30)]), box)
    assert agree(score_tracks(true, found), trackeval_figures((true, found)))


def test_the_best_matching_is_the_largest_of_all() -> None:
    assert best_matching(np.array([[3, 2, 0], [3, 0, 0]])) == 5
