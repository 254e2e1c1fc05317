"""Random scenes of boxes with tracks, for the tests of tracking."""

import numpy as np

from polyplink.evaluate.samples import BoxTracks, TrackletBoxes


def scene(seed: int, *, frames: int = 40, crowd: int = 4) -> tuple[BoxTracks, BoxTracks]:
    """True and found boxes with noise, misses, false alarms and changes of track."""
    rng = np.random.default_rng(seed)
    true, found = [], []
    for track in range(crowd):
        start, stop = np.sort(rng.integers(0, frames, 2))
        place = rng.uniform(0, 60, 2)
        name = track
        for frame in range(start, stop + 1):
            place = place + rng.normal(0, 3, 2)
            box = [*place, *rng.uniform(20, 40, 2)]
            if rng.random() < 0.9:
                true.append((frame, track, box))
            if rng.random() < 0.1:
                name = int(rng.integers(100)) * 10 + track
            if rng.random() < 0.8:
                noisy = np.array(box) + rng.choice([0.0, 4.0]) * rng.normal(0, 1, 4)
                found.append((frame, name, [*noisy[:2], *np.maximum(noisy[2:], 1)]))
    for frame in rng.integers(0, frames, 5):
        found.append((frame, 5000 + len(found), [*rng.uniform(0, 60, 2), 30, 30]))
    sides = []
    for rows in (true, found):
        table = np.array([(frame, track, *box) for frame, track, box in rows]).reshape(-1, 6)
        sides.append(BoxTracks.of(table[:, 0], table[:, 1], table[:, 2:]))
    return sides[0], sides[1]


def procedure(
    seed: int, *, touching: bool, doubled: bool = False
) -> tuple[TrackletBoxes, np.ndarray]:
    """Tracklets of three polyps, some at one time, and a clustering of them."""
    rng = np.random.default_rng(seed)
    polyp, frames, boxes = [], [], []
    at = [0, 0, 0]
    for _ in range(int(rng.integers(1, 9))):
        which = int(rng.integers(3))
        start = at[which] + int(rng.integers(0, 15))
        length = int(rng.integers(2, 12))
        at[which] = start + (length // 2 if doubled else length)
        polyp.append(which)
        frames.append(np.arange(start, start + length))
        corner = np.array([25.0 * which if touching else 200.0 * which, 0.0])
        boxes.append(
            np.hstack([corner + rng.uniform(0, 9, (length, 2)), np.full((length, 2), 40.0)])
        )
    offset = np.concatenate([[0], np.cumsum([f.size for f in frames])])
    made = TrackletBoxes(np.array(polyp), offset, np.concatenate(frames), np.concatenate(boxes))
    return made, rng.integers(0, len(polyp), len(polyp))
