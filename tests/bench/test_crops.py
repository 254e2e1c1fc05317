from pathlib import Path

import numpy as np

from polyplink.bench.crops import PROCEDURES, made_prepared, pictures
from polyplink.tracklets import PrepareSettings


def test_240_fragments_with_all_their_crops(tmp_path: Path) -> None:
    prepared = made_prepared(tmp_path, PrepareSettings(size=16))
    assert len(prepared.procedures) == PROCEDURES
    assert prepared.tracklets.height == 240
    assert (prepared.tracklets["n_crops"] == 8).all()
    assert len(prepared.fragments(8)) == 240
    assert prepared.crops("p3").shape == (240, 16, 16, 3)


def test_crops_of_a_polyp_are_alike() -> None:
    polyp = np.repeat([0, 1, 0], 8)
    found = pictures(polyp, 16, np.random.default_rng(0)).astype(float)
    within = np.abs(found[0] - found[1]).mean()
    assert within < np.abs(found[0] - found[8]).mean()
