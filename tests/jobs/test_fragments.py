from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from polyplink.jobs.fragments import kept_fragments
from polyplink.tracklets import open_prepared, prepare
from tests.conftest import Made, recipe


def mean_colour(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    starts = np.cumsum([0, *lengths])
    means = [crops[a:b].mean(axis=(0, 1, 2)) for a, b in pairwise(starts)]
    return np.stack(means).astype(np.float32)


def never(crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    raise AssertionError("embedded twice")


def test_they_are_embedded_once_and_kept_by_key_and_length(made: Made) -> None:
    settings = recipe().prepare
    prepare(made.data, settings, workers=1)
    part = open_prepared(made.data, settings).part("eval")
    first = kept_fragments(part, mean_colour, "colour-once", 4)
    assert np.array_equal(first.vectors, kept_fragments(part, never, "colour-once", 4).vectors)
    other = kept_fragments(part, mean_colour, "colour-once", 2)
    assert len(other.vectors) > len(first.vectors)
    for path in (part.folder / "embeddings").glob("fragments4-colour-once-*"):
        path.write_bytes(b"cut short")
    again = kept_fragments(part, mean_colour, "colour-once", 4)
    assert again.tracklet_ids == first.tracklet_ids
