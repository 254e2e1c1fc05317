import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from polyplink.associate import Grid, demo_grid
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate import Samples, TrackletBoxes
from polyplink.jobs.measured import Asked, measure

QUICK = Asked(demo_grid(), resamples=200)


def two_procedures(noise: float) -> tuple[np.ndarray, Samples]:
    """Two procedures of two polyps, four tracklets each, one after the other in time."""
    rng = np.random.default_rng(0)
    polyp = np.repeat(np.arange(4), 4)
    vectors = np.eye(4)[polyp] + noise * rng.normal(size=(16, 4))
    samples = Samples.of(
        [f"t{i}" for i in range(16)],
        [f"v{p // 2}" for p in polyp],
        [f"p{p}" for p in polyp],
        np.tile(np.linspace(0, 0.9, 8), 2),
    )
    return vectors, samples


def one_after_the_other(place: int) -> TrackletBoxes:
    del place
    return TrackletBoxes(
        np.repeat([0, 1], 4),
        np.arange(0, 81, 10),
        np.arange(80),
        np.tile([5.0, 5.0, 10.0, 10.0], (80, 1)),
    )


def test_perfect_vectors_score_perfectly() -> None:
    vectors, samples = two_procedures(0.0)
    wanted = ["AUPR", "mAP", "HR@1", "AUROC"]
    found = measure(wanted, vectors, samples, one_after_the_other, QUICK)
    assert list(found) == wanted
    assert all(found[name].value == pytest.approx(1.0) for name in wanted)
    assert found["mAP"].units == 2


def test_clusters_are_counted_and_tracked_by_hand() -> None:
    """Similarities are 0 or 1: by the papers' rule, FPR above 0, all is one cluster."""
    vectors, samples = two_procedures(0.0)
    wanted = ["threshold/FR", "threshold/FPR", "threshold/recall", "threshold/precision with self"]
    wanted += ["threshold/IDF1", "threshold/AssA", "threshold/AssRe"]
    found = measure(wanted, vectors, samples, one_after_the_other, QUICK)
    values = {name: found[name].value for name in wanted}
    assert values == pytest.approx(
        {
            "threshold/FR": 0.5,  # one cluster for two polyps
            "threshold/FPR": 1.0,
            "threshold/recall": 1.0,
            # (12 pairs of one polyp + 8 self-pairs) / (28 pairs + 8 self-pairs)
            "threshold/precision with self": 20 / 36,
            "threshold/IDF1": 0.5,  # 40 of 80 boxes by one track
            "threshold/AssA": 0.5,
            "threshold/AssRe": 1.0,
        }
    )
    assert found["threshold/FR"].spread == 0.0
    assert found["threshold/FR"].units == 2


def test_pairs_are_scored_as_scikit_learn_does() -> None:
    vectors, samples = two_procedures(0.6)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    i, j = np.triu_indices(16, 1)
    same, score = samples.polyp[i] == samples.polyp[j], (unit @ unit.T)[i, j]
    found = measure(["AUPR", "AUROC"], vectors, samples, asked=QUICK)
    assert found["AUROC"].value == pytest.approx(roc_auc_score(same, score))
    assert found["AUPR"].value == pytest.approx(average_precision_score(same, score))


def test_without_clustering_every_tracklet_is_a_polyp() -> None:
    vectors, samples = two_procedures(0.0)
    found = measure(["none/FR", "none/FPR"], vectors, samples, asked=QUICK)
    assert (found["none/FR"].value, found["none/FR"].spread) == (4.0, 0.0)
    assert found["none/FPR"].value == 0.0


def test_what_cannot_be_measured_says_why() -> None:
    vectors, samples = two_procedures(0.0)
    found = measure(["ap/AssA", "ap/FR", "no/such"], vectors, samples, None, QUICK)
    assert found["ap/AssA"].why == "tracking is of whole tracklets"
    assert found["ap/FR"].value is not None
    assert "no/such" not in found
    alone, _ = samples.of_procedure(0)
    one = measure(["ap/FR"], vectors[:8], alone, asked=QUICK)
    assert one["ap/FR"].value is None
    assert "none to choose a setting on" in one["ap/FR"].why
    with pytest.raises(PolyplinkError):
        measure(["mAP"], np.zeros((16, 4)), samples, asked=QUICK)
    with pytest.raises(PolyplinkError, match="ap"):
        measure(["ap/FR"], vectors, samples, asked=Asked(Grid(thresholds=(0.5,))))
