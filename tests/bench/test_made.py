import numpy as np

from polyplink.bench.made import PROCEDURES, made_tracklets
from polyplink.evaluate import retrieve


def test_polyps_keep_to_one_procedure_and_can_be_found_but_not_always() -> None:
    vectors, samples = made_tracklets(400)
    assert vectors.shape == (400, 256)
    assert len(samples.procedures) <= PROCEDURES
    for polyp in np.unique(samples.polyp):
        assert len(set(samples.procedure[samples.polyp == polyp])) == 1
    found = retrieve(vectors, samples).mean_ap
    assert found is not None
    assert 0.05 < found < 0.95
