"""Tracklets of many procedures with vectors, as an encoder of middling skill would give them."""

import numpy as np
import numpy.typing as npt

from polyplink.evaluate import Samples

PROCEDURES = 19  # of the evaluation part of REAL-Colon
WIDTH = 256


def made_tracklets(
    size: int, *, polyps_of: int = 12, noise: float = 3.0
) -> tuple[npt.NDArray[np.float64], Samples]:
    """Vectors (n, 256) about their polyps' centres, and whose they are.

    Args:
        size: Tracklets n.
        polyps_of: Tracklets of a polyp, on average.
        noise: Spread about a centre; the centres themselves have spread 1.
    """
    rng = np.random.default_rng(0)
    polyps = max(size // polyps_of, 2)
    polyp = rng.integers(0, polyps, size)
    centres = rng.normal(size=(polyps, WIDTH))
    vectors = centres[polyp] + noise * rng.normal(size=(size, WIDTH))
    names = [f"{p % PROCEDURES:02d}-{p}" for p in polyp]
    samples = Samples.of(
        [f"t{i}" for i in range(size)], [name[:2] for name in names], names, np.zeros(size)
    )
    return vectors, samples
