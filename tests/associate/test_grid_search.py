"""The grid search: each row equals a run of its setting alone; grids are the paper's."""

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from polyplink.associate.affinity.propagate import propagate
from polyplink.associate.clusterers import Agglomerative, Clustering, Dbscan, Hdbscan
from polyplink.associate.grid_search import Grid, checked_clustering, demo_grid, paper_grid, search
from polyplink.associate.similarity import visual
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS
from polyplink.testing import check_clusterer

GRID = Grid(
    alphas=(0.0, 0.5, 1.0),
    gammas=(0.5, 4.0),
    preferences=(-1.0, 0.3, 0.8, 2.0),
    thresholds=(0.2, 0.6, 1.0),
    dbscans=(Dbscan(0.3, 2), Dbscan(0.5, 3)),
    hdbscans=(Hdbscan(2, 1), Hdbscan(3, 1, "leaf")),
    linkages=(Agglomerative(0.3), Agglomerative(0.6)),
    prices=(0.2, 3.0),
)


def procedure(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return visual(rng.normal(size=(n, 4))), np.sort(rng.random(n))


@pytest.mark.parametrize(("n", "threads"), [(1, 1), (15, 1), (15, 2)])
def test_each_row_equals_its_setting_run_alone(n: int, threads: int) -> None:
    V, positions = procedure(n)
    with patch("polyplink.associate.affinity.propagate.propagate", wraps=propagate) as propagation:
        searched = search(V, positions, GRID, P=V, threads=threads)
    assert propagation.call_count == 2 + 2 + 1  # with alpha 1 all gammas share one clustering
    assert list(searched) == [name for name in CLUSTERERS if name in GRID.by_clusterer()]
    assert len(searched) == 7
    for name, settings in GRID.by_clusterer().items():
        clusterings = [setting.cluster(V, positions) for setting in settings]
        np.testing.assert_array_equal(searched[name].labels, [c.labels for c in clusterings])
        np.testing.assert_array_equal(searched[name].converged, [c.converged for c in clusterings])
        assert searched[name].labels.dtype == np.int32
    without_links = search(V, positions, GRID, threads=threads)
    assert set(searched) - set(without_links) == {"links"}


def test_only_the_requested_clusterers_are_searched() -> None:
    V, positions = procedure(4)
    for names in (("ap",), ("threshold", "dbscan"), ("temporal_ap",), ("agglomerative",)):
        subgrid = GRID.only(names)
        assert set(search(V, positions, subgrid)) - {"temporal_ap", "ap"} == (
            set(names) - {"temporal_ap", "ap"}
        )
        for name in names:
            assert subgrid.by_clusterer()[name] == GRID.by_clusterer()[name]
    assert len(GRID.only(["ap"]).temporal_ap()) == 4


def test_empty_grids_and_unknown_clusterers_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="the grid has no setting"):
        search(np.ones((2, 2)), [0, 1], Grid())
    with pytest.raises(PolyplinkError, match="no clusterer 'dbscn'; did you mean dbscan"):
        demo_grid().only(["dbscn"])
    with pytest.raises(PolyplinkError, match="no clusterer 'hdbscan'"):
        Grid(thresholds=(0.5,)).only(["hdbscan"])


def test_the_paper_grid_has_the_values_of_the_paper_and_the_demo_grid_is_small() -> None:
    grid = paper_grid()
    np.testing.assert_allclose(grid.preferences, np.linspace(-5, 5, 41))
    np.testing.assert_allclose(grid.alphas, np.linspace(0, 1, 21))
    np.testing.assert_allclose(grid.thresholds, np.linspace(0, 1, 101))
    np.testing.assert_allclose(grid.gammas[:9], np.linspace(0.1, 0.9, 9))
    np.testing.assert_allclose(grid.gammas[9:], np.arange(1, 10.2, 0.375))
    sizes = {name: len(settings) for name, settings in grid.by_clusterer().items()}
    assert (sizes["temporal_ap"], sizes["threshold"]) == (29_274, 101)
    assert 0.3 in grid.gammas
    assert 0.29 in grid.thresholds
    assert len(demo_grid().temporal_ap()) == 325


def test_a_clusterer_of_others_cannot_change_the_similarities() -> None:
    class Mine:
        def cluster(self, V: Any, positions: Any) -> Clustering:
            V[:], positions[:] = 0, 0
            return Clustering(np.zeros(len(V), np.int32), converged=True)

    V, positions = np.eye(3), np.ones(3)
    checked_clustering(Mine(), V, positions, "mine")
    assert (np.eye(3) == V).all()
    assert (positions == 1).all()


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([0, 0, 0, 1, 1, 1], "returns list, not a Clustering"),
        (Clustering(np.zeros(5, np.int32), converged=True), r"shape \(5,\) and type int32"),
        (Clustering(np.zeros(6), converged=True), r"type float64, not \(6,\) whole numbers"),  # type: ignore[arg-type]
        (Clustering(np.full(6, 2), converged=True), "labels have gaps"),
    ],
)
def test_check_clusterer_names_what_a_clusterer_does_wrong(result: object, says: str) -> None:
    @dataclass(frozen=True)
    class Mine:
        @staticmethod
        def grid() -> list[Any]:
            return [Mine()]

        def cluster(self, V: object, positions: object) -> object:
            return result

    with pytest.raises(AssertionError, match=says):
        check_clusterer(Mine)
