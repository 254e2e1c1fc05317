"""The tracker of unlabelled boxes, against a naive one."""

import math

import numpy as np
from hypothesis import given, settings, strategies as st

from polyplink.tracklets.settings import TrackSettings
from polyplink.tracklets.tracks import Tracker

Box = tuple[float, float, float, float]
FPS = 25.0


class NaiveTrack:
    def __init__(self, number: int, frame: int, box: Box, scene: int) -> None:
        self.number, self.frame, self.box, self.scene = number, frame, box, scene
        self.velocity, self.length = (0.0, 0.0), 1

    def distance(self, frame: int, box: Box) -> float:
        """Distance between box and prediction in sides of the box; inf if out of reach."""
        gap = (frame - self.frame - 1) / FPS
        moving_frames = 0.22 * FPS * (1 - math.exp(-(frame - self.frame) / (0.22 * FPS)))
        (x, y), (p, q) = centre(box), centre(self.box)
        sides = math.hypot(
            x - p - self.velocity[0] * moving_frames, y - q - self.velocity[1] * moving_frames
        )
        area, previous_area = box[2] * box[3], self.box[2] * self.box[3]
        sides /= (area * previous_area) ** 0.25
        growth = math.log(area / previous_area) / 2
        is_in_reach = (sides / 0.45) ** 2 + (growth / (0.4 + 0.5 * gap)) ** 2 <= 1
        return sides + 0.03 * gap if is_in_reach else math.inf

    def has_ended(self, frame: int, bridge: float) -> bool:
        gap = frame - self.frame - 1
        return gap > min(bridge * FPS, 0.1 * FPS + 3 * self.length)

    def append(self, frame: int, box: Box) -> None:
        step = frame - self.frame
        weight = max(0.3, 1 / self.length) if step <= 5 else 1.0
        new_velocity = [(a - b) / step for a, b in zip(centre(box), centre(self.box), strict=True)]
        self.velocity = (
            self.velocity[0] + weight * (new_velocity[0] - self.velocity[0]),
            self.velocity[1] + weight * (new_velocity[1] - self.velocity[1]),
        )
        self.frame, self.box, self.length = frame, box, self.length + 1


def centre(box: Box) -> tuple[float, float]:
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def nested(box: Box, other: Box) -> float:
    """Intersection over the smaller area."""
    across = min(box[0] + box[2], other[0] + other[2]) - max(box[0], other[0])
    down = min(box[1] + box[3], other[1] + other[3]) - max(box[1], other[1])
    return max(0.0, across) * max(0.0, down) / min(box[2] * box[3], other[2] * other[3])


def naive(
    frames: list[int],
    boxes: list[Box],
    scores: list[float],
    scenes: list[list[int]],
    most_nested: float,
    bridge: float,
) -> list[int]:
    tracks: list[NaiveTrack] = []
    out = [-1] * len(frames)
    for frame in sorted(set(frames)):
        rows = [row for row, other in enumerate(frames) if other == frame]
        scene = [0, *(number for first, number in scenes if first <= frame)][-1]
        for least, most in ((0.4, 2.0), (0.1, 0.4)):
            pairs = [
                (track.distance(frame, boxes[row]), row, track)
                for row in rows
                if least <= scores[row] < most
                for track in tracks
                if track.frame < frame
                and not track.has_ended(frame, bridge)
                and track.scene == scene
            ]
            for distance, row, track in sorted(pairs, key=lambda pair: pair[0]):
                is_shown = most_nested < 1 and any(
                    nested(boxes[row], other.box) > most_nested
                    for other in tracks
                    if other.frame == frame
                )
                if distance < math.inf and out[row] < 0 and track.frame < frame and not is_shown:
                    track.append(frame, boxes[row])
                    out[row] = track.number
        for row in rows if most_nested == 1 else sorted(rows, key=lambda row: -scores[row]):
            is_shown = most_nested < 1 and any(
                nested(boxes[row], track.box) > most_nested
                for track in tracks
                if track.scene == scene and not track.has_ended(frame, bridge)
            )
            if out[row] < 0 and scores[row] >= 0.4 and not is_shown:
                out[row] = len(tracks)
                tracks.append(NaiveTrack(len(tracks), frame, boxes[row], scene))
    return out


@settings(max_examples=25)
@given(
    st.integers(0, 10_000),
    st.integers(1, 60),
    st.booleans(),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from([0.7, 0.2]),
)
def test_the_tracker_equals_a_naive_one_in_one_call_and_by_frame(
    seed: int, n: int, dense: bool, most_nested: float, bridge: float
) -> None:
    rng = np.random.default_rng(seed)
    frames = np.sort(rng.integers(0, 12 if dense else 120, n))
    boxes = np.concatenate([rng.uniform(0, 60, (n, 2)), rng.uniform(10, 40, (n, 2))], 1)
    scores = rng.uniform(0, 1, n)
    starts = np.unique(rng.integers(0, 120, rng.integers(0, 4)))
    scenes = np.stack([starts, rng.integers(0, 3, len(starts))], 1)
    rows = [tuple(box) for box in boxes.tolist()]
    expected = naive(frames.tolist(), rows, scores.tolist(), scenes.tolist(), most_nested, bridge)
    track_settings = TrackSettings(nested=most_nested, bridge=bridge)
    assert Tracker(FPS, track_settings).update(frames, boxes, scores, scenes).tolist() == expected
    tracker, tracks_by_frame = Tracker(FPS, track_settings), []
    for frame in range(120):
        in_frame = frames == frame
        new_tracks = tracker.update(
            frames[in_frame], boxes[in_frame], scores[in_frame], scenes[starts == frame]
        )
        tracks_by_frame += new_tracks.tolist()
    assert tracks_by_frame == expected
