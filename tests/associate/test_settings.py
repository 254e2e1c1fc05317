import numpy as np

from polyplink.associate.affinity import propagate
from polyplink.associate.settings import TemporalAP, Threshold, demo_grid, paper_grid
from polyplink.associate.similarity import temporal, visual


def test_the_paper_grid_is_the_paper_s() -> None:
    grid = paper_grid()
    np.testing.assert_allclose(grid.preferences, np.linspace(-5, 5, 41))
    np.testing.assert_allclose(grid.alphas, np.linspace(0, 1, 21))
    np.testing.assert_allclose(grid.thresholds, np.linspace(0, 1, 101))
    np.testing.assert_allclose(grid.gammas[:9], np.linspace(0.1, 0.9, 9))
    np.testing.assert_allclose(grid.gammas[9:], np.arange(1, 10.2, 0.375))
    assert len(grid.temporal_ap()) == 29_274
    assert len(grid.settings()) == 29_274 + 101
    assert 0.3 in grid.gammas
    assert 0.29 in grid.thresholds


def test_the_demo_grid_is_small() -> None:
    assert len(demo_grid().temporal_ap()) == 325
    assert len(demo_grid().threshold()) == 51


def test_temporal_ap_clusters_the_weighted_similarity() -> None:
    rng = np.random.default_rng(0)
    V, positions = visual(rng.normal(size=(12, 4))), np.sort(rng.random(12))
    found = TemporalAP(alpha=0.5, gamma=2.0, preference=0.5).cluster(V, positions)
    expected, _ = propagate(0.5 * V + 0.5 * temporal(positions, 2.0), [0.5])
    np.testing.assert_array_equal(found.labels, expected[0])
    assert found.converged
    assert 1 < found.labels.max() + 1 < 12


def test_threshold_links_what_is_similar() -> None:
    V = np.array([[1.0, 0.7, 0.0], [0.7, 1.0, 0.1], [0.0, 0.1, 1.0]])
    found = Threshold(0.5).cluster(V, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(found.labels, [0, 0, 1])
    assert found.converged
