"""The pages of a report."""

from pathlib import Path

import numpy as np

from polyplink.associate import Calibration, TemporalAP
from polyplink.encoders import colour_histogram, embed
from polyplink.jobs.clustering import scenes
from polyplink.jobs.operating import Operating
from polyplink.jobs.page import link, pages
from polyplink.tracklets import PrepareSettings, prepare
from tests.samples import write_procedures


def test_polyps_are_numbered_as_they_appear_and_empty_procedures_have_a_page(
    tmp_path: Path,
) -> None:
    prepared = prepare(
        write_procedures(tmp_path, procedures=2), PrepareSettings(size=32, crop_factor=2.0)
    )
    operating = Operating(
        TemporalAP(alpha=1.0, gamma=1.0, preference=0.5),
        Calibration(-4.0, 8.0, 0.0, pairs=10, positives=4),
        "made up",
    )
    embeddings = embed(prepared, colour_histogram, "h")
    linked = [link(scene, operating) for scene in scenes(prepared, embeddings, "l2", ["001-002"])]
    assert linked[0].names == ["P1", "P2"]
    assert linked[0].clustering.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.isfinite(linked[0].scores).all()
    empty, full = pages(linked, prepared, operating)
    assert (empty.procedure_id, empty.tracklets) == ("001-001", ())
    assert (full.n_counted, full.n_polyps) == (2, 2)
    assert full.similarity is not None
    assert full.similarity.shape == (6, 6)
    assert full.tracklets[0].crop is not None
    assert full.tracklets[0].crop.shape == (32, 32, 3)
    assert all(0 <= doubt.sureness <= 1 for doubt in full.uncertain)
