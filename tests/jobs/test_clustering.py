"""Joining tracklets and vectors."""

from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import Embeddings, colour_histogram, embed
from polyplink.jobs.clustering import scenes
from polyplink.tracklets import PrepareSettings, prepare
from tests.samples import write_procedures


def test_rows_of_each_procedure_stay_together(tmp_path: Path) -> None:
    folder = write_procedures(tmp_path, procedures=3)
    prepared = prepare(folder, PrepareSettings(size=32, crop_factor=2.0))
    embeddings = embed(prepared, colour_histogram, "h")
    # The vectors may lie in any order.
    order = np.random.default_rng(0).permutation(len(embeddings.tracklet_ids))
    shuffled = Embeddings(
        [embeddings.tracklet_ids[i] for i in order], embeddings.vectors[order], "h", "c"
    )
    found = scenes(prepared, shuffled, "l2", ["001-002", "001-001"])
    assert [scene.procedure_id for scene in found] == ["001-002", "001-001"]
    for scene in found:
        assert scene.V.shape == (6, 6)
        polyps = np.array(scene.polyps)
        same = polyps[:, None] == polyps[None, :]
        assert scene.V[same].min() > scene.V[~same].max()  # plain colours
    short = Embeddings(embeddings.tracklet_ids[1:], embeddings.vectors[1:], "h", "c")
    with pytest.raises(PolyplinkError, match="tracklet 001-001:00000 has no vector"):
        scenes(prepared, short, "l2")
