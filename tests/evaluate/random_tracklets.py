"""Random tracklets of several procedures: vectors, samples and boxes."""

import numpy as np

from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.samples import Samples, TrackletBoxes

POLYPS = (2, 1, 3, 2)  # polyps of each procedure
TRACKLETS = (9, 4, 11, 6)


def ends(interval: Figure) -> np.ndarray:
    """Both ends of a confidence interval as an array."""
    assert interval.low is not None
    assert interval.high is not None
    return np.array([interval.low, interval.high])


def random_samples(
    seed: int = 0, unknown: int = 0, noise: float = 1.0
) -> tuple[np.ndarray, Samples, list[str | None]]:
    """Random vectors (30, 6), their samples in random order, and the names of their polyps."""
    rng = np.random.default_rng(seed)
    rows = []
    for procedure, (polyps, tracklets) in enumerate(zip(POLYPS, TRACKLETS, strict=True)):
        centres = 2 * rng.normal(size=(polyps, 6))
        for i in range(tracklets):
            polyp = i % polyps
            vector = centres[polyp] + noise * rng.normal(size=6)
            rows.append((f"v{procedure}", f"v{procedure}-{polyp}", i / tracklets, vector))
    order = rng.permutation(len(rows))
    rows = [rows[i] for i in order]
    names: list[str | None] = [row[1] for row in rows]
    for row in range(unknown):
        names[row] = None
    samples = Samples.of(
        [f"t{i}" for i in range(len(rows))], [r[0] for r in rows], names, [r[2] for r in rows]
    )
    return np.array([row[3] for row in rows]), samples, names


def boxes_of(samples: Samples, *, length: int = 12) -> TrackletBoxes:
    """Boxes of all samples; tracklets of a procedure follow each other in time."""
    n = len(samples.tracklet_ids)
    start = np.zeros(n, dtype=np.int64)
    for place in range(len(samples.procedures)):
        rows = np.flatnonzero(samples.procedure == place)
        start[rows[np.argsort(samples.positions[rows])]] = np.arange(rows.size) * (length + 3)
    frame = (start[:, None] + np.arange(length)).ravel()
    box = np.tile([10.0, 20.0, 30.0, 40.0], (n * length, 1))
    return TrackletBoxes(samples.polyp, np.arange(n + 1) * length, frame, box)
