"""The compiled part of the tracker: follow tracks frame by frame, see `tracks`.

It imports only `core.compiled`: a change of any other file that it imported would compile it again,
which takes several seconds.
"""

import math

import numpy as np

from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.core.compiled import njit

Inputs = tuple[Ints, Floats, Floats, Ints]

REACH = 0.45  # largest distance from the prediction, in box sides
SCALE, GROWTH = 0.4, 0.5  # largest change of log(side), and its increase per second of gap
COASTING = 0.22  # time constant of the damped velocity, seconds
SMOOTHING = 0.3  # weight of the newest velocity
CONTIGUOUS = 0.2  # seconds: after a longer gap the velocity is replaced, not smoothed
# Longest gap: SHORTEST seconds, plus EARNED frames per box of the track.
SHORTEST, EARNED = 0.1, 3.0
# Columns of the state of a track: its last box, the frame of this box, the velocity in pixels per
# frame, the number of boxes, the track's number, and its scene.
X, Y, W, H, FRAME, VX, VY, LENGTH, NUMBER, SCENE = range(10)
FIELDS = 10


@njit(error_model="numpy")
def follow(  # noqa: PLR0912
    inputs: Inputs, limits: tuple[float, float, float, float, float], state: Floats, counts: Ints
) -> Ints:
    """Follow tracks frame by frame.

    Args:
        inputs: Frames (d,), boxes (d, 4), scores (d,) and scenes (s, 2); frames ascend.
        limits: High and low score, longest gap in seconds, frames per second, and the largest share
            of a box within the box of another track, or the reverse: with more, it continues no
            track if that box is in the same frame, and begins none if it is the track's latest.
        state: (at least tracks that may continue + d, FIELDS); changed.
        counts: Tracks that may continue, in the first rows of the state, and tracks begun; changed.

    Returns:
        (d,) track of each box, -1 for none.
    """
    frames, boxes, scores, scenes = inputs
    high, low, bridge, fps, most_nested = limits
    track = np.full(len(frames), -1, np.int64)
    alive, begun = counts
    begin = 0
    while begin < len(frames):
        end = begin
        while end < len(frames) and frames[end] == frames[begin]:
            end += 1
        begun_scenes = np.searchsorted(scenes[:, 0], frames[begin], side="right")
        scene = scenes[begun_scenes - 1, 1] if begun_scenes else 0
        # End the tracks with a gap that is too long.
        slot = 0
        while slot < alive:
            longest = min(bridge * fps, SHORTEST * fps + EARNED * state[slot, LENGTH])
            gap = frames[begin] - state[slot, FRAME] - 1
            if gap > longest:
                alive -= 1
                for k in range(FIELDS):
                    state[slot, k] = state[alive, k]
            else:
                slot += 1
        for min_score, max_score in ((high, np.inf), (low, high)):
            taking_part = (scores[begin:end] >= min_score) & (scores[begin:end] < max_score)
            if not taking_part.any():
                continue
            pairs = _pairs_within_reach(
                boxes[begin:end], taking_part, state[:alive], frames[begin], scene, fps
            )
            for pair in pairs:  # each box and each track joins once
                k, slot = pair // alive, pair % alive
                row = begin + k
                if track[row] >= 0 or state[slot, FRAME] == frames[row]:
                    continue
                if _is_nested(boxes[row], state[:alive], scene, frames[row], most_nested):
                    continue
                _continue(state[slot], boxes[row], frames[row], fps)
                track[row] = np.int64(state[slot, NUMBER])
        order = np.arange(end - begin)
        if most_nested < 1.0 and len(order) > 1:  # of nested boxes the best one begins a track
            order = np.argsort(-scores[begin:end], kind="mergesort")
        for place in range(end - begin):
            row = begin + int(order[place])
            if track[row] >= 0 or scores[row] < high:
                continue
            if _is_nested(boxes[row], state[:alive], scene, 0, most_nested):
                continue
            _begin(state[alive], boxes[row], frames[row], scene, begun)
            track[row] = begun
            alive += 1
            begun += 1
        begin = end
    counts[0], counts[1] = alive, begun
    return track


@njit(error_model="numpy")
def _pairs_within_reach(  # noqa: PLR0917
    boxes: Floats,
    taking_part: Flags,
    tracks: Floats,
    frame: int,
    scene: int,
    fps: float,
) -> Ints:
    """Pairs of boxes of a frame and tracks within reach, the nearest first.

    Args:
        boxes: (b, 4) boxes of the frame.
        taking_part: (b,) whether a box may be in a pair.
        tracks: (t, FIELDS) states of tracks; those of other scenes, or with a box in this frame,
            are in no pair.
        frame: Number of the frame.
        scene: Scene of the frame.
        fps: Frames per second.

    Returns:
        (pairs,) box * t + track.
    """
    distances = np.full((len(boxes), len(tracks)), np.inf)  # (b, t)
    for box in range(len(boxes)):
        for slot in range(len(tracks)):
            free = tracks[slot, FRAME] < frame and tracks[slot, SCENE] == scene
            if taking_part[box] and free:
                distances[box, slot] = _distance(boxes[box], tracks[slot], frame, fps)
    flat = distances.ravel()
    pairs = np.flatnonzero(flat < np.inf)
    if len(pairs) > 1:
        pairs = pairs[np.argsort(flat[pairs], kind="mergesort")]
    return pairs


@njit(error_model="numpy")
def _is_nested(box: Floats, tracks: Floats, scene: int, since: int, most: float) -> bool:
    """Whether a box lies within or around the latest box of a track of the same scene.

    With `most` of 1, none does.

    Args:
        box: (4,) the box.
        tracks: (t, FIELDS) states of tracks.
        scene: Scene of the box.
        since: Tracks whose latest box is in an earlier frame are not compared.
        most: Largest intersection of two boxes that are not nested, over the smaller area.
    """
    if most >= 1.0:  # rounding may give a larger share
        return False
    x, y, w, h = box
    for track in tracks:
        across = min(x + w, track[X] + track[W]) - max(x, track[X])
        down = min(y + h, track[Y] + track[H]) - max(y, track[Y])
        smaller = min(w * h, track[W] * track[H])
        overlap = max(across, 0.0) * max(down, 0.0) / smaller
        if track[SCENE] == scene and track[FRAME] >= since and overlap > most:
            return True
    return False


@njit(error_model="numpy")
def _begin(track: Floats, box: Floats, frame: int, scene: int, number: int) -> None:
    """Write the state (FIELDS,) of a track of one box."""
    track[:] = 0.0
    track[X], track[Y], track[W], track[H] = box
    track[FRAME], track[SCENE] = frame, scene
    track[LENGTH], track[NUMBER] = 1.0, number


@njit(error_model="numpy")
def _continue(track: Floats, box: Floats, frame: int, fps: float) -> None:
    """Append a box to a track by updating its state (FIELDS,)."""
    step = frame - track[FRAME]
    weight = 1.0
    if step <= max(CONTIGUOUS * fps, 1.0):
        weight = max(SMOOTHING, 1.0 / track[LENGTH])
    x, y, w, h = box
    track[VX] += weight * ((x + w / 2 - track[X] - track[W] / 2) / step - track[VX])
    track[VY] += weight * ((y + h / 2 - track[Y] - track[H] / 2) / step - track[VY])
    track[X], track[Y], track[W], track[H] = x, y, w, h
    track[FRAME] = frame
    track[LENGTH] += 1


@njit(error_model="numpy")
def _distance(box: Floats, track: Floats, frame: int, fps: float) -> float:
    """Distance of a box from a track's predicted position, in box sides; inf if out of reach.

    Args:
        box: (4,) the box.
        track: (FIELDS,) state of the track.
        frame: Frame of the box.
        fps: Frames per second.
    """
    x, y, w, h = box
    step = frame - track[FRAME]
    coasting = COASTING * fps
    frames = coasting * (1.0 - math.exp(-step / coasting))  # the velocity decays
    across = x + w / 2 - track[X] - track[W] / 2 - track[VX] * frames
    down = y + h / 2 - track[Y] - track[H] / 2 - track[VY] * frames
    side = (w * h * track[W] * track[H]) ** 0.25
    distance = math.sqrt(across * across + down * down) / side
    growth = 0.5 * math.log(w * h / (track[W] * track[H]))
    gap = (step - 1.0) / fps
    reach = (distance / REACH) ** 2 + (growth / (SCALE + GROWTH * gap)) ** 2
    # Of equally near tracks the more recent one is preferred.
    return distance + 0.03 * gap if reach <= 1.0 else math.inf
