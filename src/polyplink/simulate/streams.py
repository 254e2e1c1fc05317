"""Random streams: every concern of a procedure draws from a generator of its own.

So a box never depends on a texture: whatever one part draws more or less of, the others stay as
they were.
"""

import numpy as np


def stream(seed: int, procedure_id: str, concern: str) -> np.random.Generator:
    """The generator of one concern of one procedure.

    Args:
        seed: Seed of the data set, from 0.
        procedure_id: Which procedure; its name counts, not its place in a list.
        concern: What is drawn, for example "course", "camera" or "polyp 0".

    Returns:
        A generator at its beginning: the same three give the same draws.
    """
    name = f"{procedure_id}/{concern}".encode()
    return np.random.default_rng(np.random.SeedSequence([seed, *name]))
