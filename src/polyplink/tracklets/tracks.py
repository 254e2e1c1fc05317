"""Link detections of unknown polyps to tracks: two thresholds, a motion model, bridged gaps.

A detector misses a polyp in runs of frames, during which the polyp moves. The tracker is online (it
uses no later frames), so that it also works for a running procedure: every track predicts the
position of its polyp with a damped velocity, and is continued by the box nearest to the prediction
in units of the boxes' sides. If the polyp stays in view, it is close to the prediction even after a
second; a box farther away is more often another view, another polyp or a false alarm. As in
ByteTrack (Zhang et al., ECCV 2022), confident boxes are assigned first, and the others may continue
a track but not begin one; nor does a box that lies within or around the latest box of a track, and
so shows the same polyp or a part of it. A track of few boxes, which is often a false alarm, may
only have short gaps, and no track continues from one scene to another.
"""

import numpy as np
import polars as pl

from polyplink.core.arrays import Floats, Ints
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import TRACKERS
from polyplink.core.text import many
from polyplink.tracklets.follow import EARNED, FIELDS, FRAME, LENGTH, NUMBER, SHORTEST, follow
from polyplink.tracklets.settings import TrackSettings

ONE_SCENE = np.zeros((0, 2), np.int64)


class Tracker:
    """Links the boxes of one procedure to tracks, all at once or frame by frame.

    Example:
        >>> boxes = np.array([[10, 10, 40, 40], [14, 10, 40, 40], [30, 12, 40, 40]], float)
        >>> Tracker(25.0).update(np.array([0, 1, 6]), boxes, np.full(3, 0.9))
        array([0, 0, 0])
    """

    def __init__(self, fps: float, settings: TrackSettings | None = None) -> None:
        """Start without tracks.

        Args:
            fps: Frames per second.
            settings: Thresholds and longest gap; None for the defaults.
        """
        settings = settings or TrackSettings()
        self._limits = (settings.high, settings.low, settings.bridge, fps, settings.nested)
        self._state = np.zeros((0, FIELDS))  # of the tracks that may continue
        self._tracks = 0  # number of tracks begun so far
        self._scene = ONE_SCENE  # the latest scene

    def update(self, frames: Ints, boxes: Floats, scores: Floats, scenes: Ints = ONE_SCENE) -> Ints:
        """Link further boxes, of later frames than in the previous call.

        Args:
            frames: (d,) frame numbers, ascending.
            boxes: (d, 4) x, y, w, h in pixels, areas above 0.
            scores: (d,) detector's scores in [0, 1].
            scenes: (s, 2) first frames and numbers of further scenes, in temporal order, after
                scene 0. A box only continues tracks of the same scene.

        Returns:
            (d,) track of each box, numbered from 0 by first box; -1 for boxes left out. A track
            has at most one box per frame.
        """
        state = np.concatenate([self._state, np.zeros((len(frames), FIELDS))])
        counts = np.array([len(self._state), self._tracks])
        scenes = np.concatenate([self._scene, scenes])
        self._scene = scenes[-1:]
        # Read-only arrays, as from polars, would be compiled for separately.
        frames = np.require(frames, requirements=("C", "W"))
        boxes, scores = (np.require(array, requirements=("C", "W")) for array in (boxes, scores))
        tracks = follow((frames, boxes, scores, scenes), self._limits, state, counts)
        self._state = state[: counts[0]].copy()
        self._tracks = int(counts[1])
        return tracks

    def open(self, frame: int) -> Ints:
        """Numbers of the tracks that a box of this frame may still continue."""
        _, _, bridge, fps, _ = self._limits
        longest = np.minimum(bridge * fps, SHORTEST * fps + EARNED * self._state[:, LENGTH])
        is_open = frame - self._state[:, FRAME] - 1 <= longest
        numbers: Ints = self._state[is_open, NUMBER].astype(np.int64)
        return numbers


def make_tracker(fps: float, settings: TrackSettings) -> Tracker:
    """Create the tracker named in the settings: `Tracker`, or one of a plugin.

    Raises:
        PolyplinkError: If no tracker has the name.
    """
    tracker: type[Tracker] = TRACKERS.find(settings.tracker)
    with TRACKERS.running(settings.tracker):
        return tracker(fps, settings)


def update_tracks(
    tracker: Tracker, settings: TrackSettings, boxes: tuple[Ints, Floats, Floats], scenes: Ints
) -> Ints:
    """Link further boxes with a tracker; see `Tracker.update`.

    Args:
        tracker: The tracker.
        settings: The settings that it was made with.
        boxes: Frames (d,), boxes (d, 4) and scores (d,), as from `tracker_input`.
        scenes: (s, 2) scenes that begin in these frames.

    Returns:
        (d,) track of each box, -1 for boxes left out.

    Raises:
        PolyplinkError: If the tracker of a plugin does not return one whole number a box.
    """
    name = settings.tracker
    with TRACKERS.running(name):
        returned = tracker.update(*boxes, scenes)
    tracks = TRACKERS.check_returned(name, returned, np.ndarray)
    n = len(boxes[0])
    if tracks.shape != (n,) or not np.issubdtype(tracks.dtype, np.integer):
        raise PolyplinkError(
            f"tracker {name!r} returns {tracks.dtype} of shape {tracks.shape} for {many(n, 'box')}",
            "return the number of the track of each box, -1 for a box that is left out",
        )
    return tracks


def tracker_input(boxes: pl.DataFrame) -> tuple[Ints, Floats, Floats]:
    """Frames (d,), boxes (d, 4) and scores (d,) for `Tracker.update`; missing scores are 1.

    Args:
        boxes: frame, x, y, w, h and, if known, score.
    """
    score = (
        boxes["score"].fill_null(1.0)
        if "score" in boxes.columns
        else pl.repeat(1.0, boxes.height, eager=True)
    )
    return (
        boxes["frame"].cast(pl.Int64).to_numpy(),
        np.ascontiguousarray(boxes.select("x", "y", "w", "h").to_numpy(), np.float64),
        score.cast(pl.Float64).to_numpy(),
    )
