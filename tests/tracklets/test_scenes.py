"""Scenes of a recording: cuts, and pictures that come back."""

import numpy as np
import pytest

from polyplink.tracklets.scenes import SceneFinder

RNG = np.random.default_rng(0)
COLONS = RNG.integers(0, 256, (3, 6, 8, 1)).repeat(3, 3)  # three pictures, coarse


def shown(colon: int, moved: int = 0, light: int = 0) -> np.ndarray:
    """A frame (48, 64, 3): one of the pictures, moved by some pixels, lighter by some levels."""
    picture = COLONS[colon].repeat(8, 0).repeat(8, 1)
    frame: np.ndarray = (np.roll(picture, moved, 1) // 2 + light).astype(np.uint8)
    return frame


@pytest.mark.parametrize(
    ("frames", "scenes"),
    [
        ([shown(0, k // 4) for k in range(40)], [0] * 40),  # motion
        ([shown(0)] * 20 + [shown(1)] * 20, [0] * 20 + [1] * 20),  # a cut
        ([shown(0)] * 20 + [shown(1)] * 20 + [shown(2)] * 5, [0] * 20 + [1] * 20 + [2] * 5),
        (  # a flash
            [shown(0)] * 20 + [shown(0, light=90)] * 3 + [shown(0, 1)] * 9,
            [0] * 20 + [1] * 3 + [0] * 9,
        ),
    ],
)
def test_scenes_of_frames(frames: list[np.ndarray], scenes: list[int]) -> None:
    finder = SceneFinder()
    assert [finder.scene(frame) for frame in frames] == scenes
    # The state is all that a finder knows.
    first = SceneFinder()
    for frame in frames[:21]:
        first.scene(frame)
    second = SceneFinder(first.state)
    assert [second.scene(frame) for frame in frames[21:]] == scenes[21:]
