from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import cluster
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from polyplink.associate.clusterers import TemporalAP
from polyplink.associate.estimators import (
    AgglomerativeClustering,
    APClustering,
    DBSCANClustering,
    HDBSCANClustering,
    TemporalAPClustering,
    ThresholdClustering,
)
from polyplink.associate.similarity import visual
from tests.associate.test_clusterers import same_partition

ESTIMATORS: list[Any] = [
    ThresholdClustering(0.6),
    APClustering(-0.5),
    TemporalAPClustering(1.0, 2.0, -0.5),
    DBSCANClustering(0.4),
    HDBSCANClustering(5, 2),
    AgglomerativeClustering(0.4),
]
# The check passes rows of small integers, and one row is zero.
EXPECTED_FAILURES = {
    "check_estimators_dtypes": "the cosine of a row of zeros is undefined, so it is refused"
}


def vectors(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=(3, 6))[np.arange(12) % 3] + 0.2 * rng.normal(size=(12, 6)))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_precomputed_similarities_and_embeddings_give_the_same_labels(estimator: Any) -> None:
    X = vectors()
    embedded = clone(estimator).fit(X)
    fitted = clone(estimator).set_params(affinity="precomputed").fit(visual(X))
    np.testing.assert_array_equal(fitted.labels_, embedded.labels_)
    assert fitted.converged_ == embedded.converged_
    assert fitted.n_clusters_ == len(set(embedded.labels_.tolist()))
    assert clone(estimator).get_params() == estimator.get_params()
    with pytest.raises(ValueError, match="must be square"):
        fitted.fit(X)
    with pytest.raises(ValueError, match="affinity 'x'"):
        clone(estimator).set_params(affinity="x").fit(X)


@pytest.mark.parametrize("seed", range(3))
def test_similarity_rows_are_clustered_as_points_as_in_the_tpc_program(seed: int) -> None:
    V = visual(vectors(seed))
    X = 1 - cdist(V, V)
    dbscan = DBSCANClustering(0.5, 1, affinity="precomputed").fit_predict(X)
    assert same_partition(dbscan, cluster.DBSCAN(eps=0.5, min_samples=1).fit_predict(V))
    linkage = AgglomerativeClustering(0.5, affinity="precomputed").fit_predict(X)
    reference = cluster.AgglomerativeClustering(None, distance_threshold=0.5, linkage="average")
    assert same_partition(linkage, reference.fit_predict(V))


@pytest.mark.parametrize(
    "estimator", [TemporalAPClustering(1.0, 2.0, -0.5), HDBSCANClustering(5, 2)]
)  # all estimators have one base, and differ in their parameters, which the test above copies
def test_estimators_pass_the_checks_of_scikit_learn(estimator: Any) -> None:
    results = check_estimator(
        estimator, expected_failed_checks=EXPECTED_FAILURES, on_fail=None, on_skip=None
    )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    (refused,) = [result for result in results if result["status"] == "xfail"]
    assert "cosine is undefined" in str(refused["exception"])
    assert sum(result["status"] == "passed" for result in results) > 25


def test_the_temporal_estimator_requires_positions() -> None:
    X, positions = vectors(), np.linspace(0, 1, 12)
    model = TemporalAPClustering(0.5, 3.0, 0.2)
    expected = TemporalAP(0.5, 3.0, 0.2).cluster(visual(X), positions)
    np.testing.assert_array_equal(model.fit_predict(X, positions=positions), expected.labels)
    assert model.converged_ == expected.converged
    with pytest.raises(ValueError, match="positions"):
        model.fit(X)
