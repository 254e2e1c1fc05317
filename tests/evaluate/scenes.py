"""Random boxes with tracks, and random tracklets, for tests of tracking."""

import numpy as np

from polyplink.evaluate.samples import BoxTracks, TrackletBoxes


def scene(seed: int, *, frames: int = 40, tracks: int = 4) -> tuple[BoxTracks, BoxTracks]:
    """True and detected boxes, with noise, misses, false alarms and changes of track."""
    rng = np.random.default_rng(seed)
    true_boxes, detected = [], []
    for number in range(tracks):
        start, stop = np.sort(rng.integers(0, frames, 2))
        corner = rng.uniform(0, 60, 2)
        name = number
        for frame in range(start, stop + 1):
            corner = corner + rng.normal(0, 3, 2)
            box = [*corner, *rng.uniform(20, 40, 2)]
            if rng.random() < 0.9:
                true_boxes.append((frame, number, box))
            if rng.random() < 0.1:
                name = int(rng.integers(100)) * 10 + number
            if rng.random() < 0.8:
                noisy = np.array(box) + rng.choice([0.0, 4.0]) * rng.normal(0, 1, 4)
                detected.append((frame, name, [*noisy[:2], *np.maximum(noisy[2:], 1)]))
    for frame in rng.integers(0, frames, 5):
        detected.append((frame, 5000 + len(detected), [*rng.uniform(0, 60, 2), 30, 30]))
    sides = []
    for rows in (true_boxes, detected):
        table = np.array([(frame, number, *box) for frame, number, box in rows]).reshape(-1, 6)
        sides.append(BoxTracks.of(table[:, 0], table[:, 1], table[:, 2:]))
    return sides[0], sides[1]


def procedure(
    seed: int, *, touching: bool, overlapping: bool = False
) -> tuple[TrackletBoxes, np.ndarray]:
    """Tracklets of three polyps, some at the same time, and a clustering of them.

    Args:
        seed: Of the random numbers.
        touching: Whether boxes of different polyps can overlap.
        overlapping: Whether a polyp can have two boxes in a frame.
    """
    rng = np.random.default_rng(seed)
    polyp, frames, boxes = [], [], []
    next_start = [0, 0, 0]
    for _ in range(int(rng.integers(1, 9))):
        polyp_number = int(rng.integers(3))
        start = next_start[polyp_number] + int(rng.integers(0, 15))
        length = int(rng.integers(2, 12))
        next_start[polyp_number] = start + (length // 2 if overlapping else length)
        polyp.append(polyp_number)
        frames.append(np.arange(start, start + length))
        corner = np.array([25.0 * polyp_number if touching else 200.0 * polyp_number, 0.0])
        boxes.append(
            np.hstack([corner + rng.uniform(0, 9, (length, 2)), np.full((length, 2), 40.0)])
        )
    offset = np.concatenate([[0], np.cumsum([f.size for f in frames])])
    tracklets = TrackletBoxes(
        np.array(polyp), offset, np.concatenate(frames), np.concatenate(boxes)
    )
    return tracklets, rng.integers(0, len(polyp), len(polyp))
