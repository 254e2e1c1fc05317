"""Scenes of a recording: cuts, and pictures that reappear."""

import numpy as np
import pytest

from polyplink.tracklets.scenes import SceneFinder

RNG = np.random.default_rng(0)
COLONS = RNG.integers(0, 256, (3, 6, 8, 1)).repeat(3, 3)  # three coarse pictures


def frame_of(colon: int, shift: int = 0, light: int = 0) -> np.ndarray:
    """A frame (48, 64, 3) of a picture, shifted by some pixels and brighter by some levels."""
    picture = COLONS[colon].repeat(8, 0).repeat(8, 1)
    frame: np.ndarray = (np.roll(picture, shift, 1) // 2 + light).astype(np.uint8)
    return frame


@pytest.mark.parametrize(
    ("frames", "scenes"),
    [
        ([frame_of(0, k // 4) for k in range(40)], [0] * 40),  # motion
        ([frame_of(0)] * 20 + [frame_of(1)] * 20, [0] * 20 + [1] * 20),  # a cut
        (
            [frame_of(0)] * 20 + [frame_of(1)] * 20 + [frame_of(2)] * 5,
            [0] * 20 + [1] * 20 + [2] * 5,
        ),
        (  # a short scene, after which the one before it returns
            [frame_of(0)] * 20 + [frame_of(1)] * 20 + [frame_of(2)] * 3 + [frame_of(1)] * 5,
            [0] * 20 + [1] * 20 + [2] * 3 + [1] * 5,
        ),
        (  # a flash
            [frame_of(0)] * 20 + [frame_of(0, light=90)] * 3 + [frame_of(0, 1)] * 9,
            [0] * 20 + [1] * 3 + [0] * 9,
        ),
    ],
)
def test_scenes_change_at_cuts_and_return_with_their_pictures(
    frames: list[np.ndarray], scenes: list[int]
) -> None:
    finder = SceneFinder()
    assert [finder.scene(frame) for frame in frames] == scenes
    # A finder can be restored from its state.
    first = SceneFinder()
    for frame in frames[:21]:
        first.scene(frame)
    second = SceneFinder(first.state)
    assert [second.scene(frame) for frame in frames[21:]] == scenes[21:]
