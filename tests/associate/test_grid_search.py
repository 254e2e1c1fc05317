"""The grid search: each row equals a run of its setting alone; grids are the paper's."""

from dataclasses import dataclass
from itertools import product, starmap
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from polyplink.associate.affinity_propagation import propagate
from polyplink.associate.clusterers import (
    AffinityPropagation,
    Agglomerative,
    Clustering,
    Clusterings,
    Dbscan,
    Hdbscan,
    LearnedLinks,
    Setting,
    TemporalAP,
    Threshold,
)
from polyplink.associate.grid_search import checked_clustering, find_grid, search
from polyplink.associate.similarity import visual
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS
from polyplink.testing import check_clusterer

PREFERENCES = (-1.0, 0.3, 0.8, 2.0)
CHOSEN: dict[str, list[Setting]] = {
    "temporal_ap": list(starmap(TemporalAP, product((0.0, 0.5, 1.0), (0.5, 4.0), PREFERENCES))),
    "ap": list(map(AffinityPropagation, PREFERENCES)),
    "threshold": list(map(Threshold, (0.2, 0.6, 1.0))),
    "dbscan": [Dbscan(0.3, 2), Dbscan(0.5, 3)],
    "hdbscan": [Hdbscan(2, 1), Hdbscan(3, 1, "leaf")],
    "agglomerative": [Agglomerative(0.3), Agglomerative(0.6)],
    "links": [LearnedLinks(0.2), LearnedLinks(3.0), LearnedLinks(3.0, tolerance=0.6)],
}
GRID = {name: CHOSEN.get(name, part.grid()[::10]) for name, part in CLUSTERERS.items()}


def procedure(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return visual(rng.normal(size=(n, 4))), np.sort(rng.random(n))


@pytest.mark.parametrize(("n", "threads"), [(1, 1), (15, 1), (15, 2)])
def test_each_row_equals_its_setting_run_alone(n: int, threads: int) -> None:
    V, positions = procedure(n)
    with patch(
        "polyplink.associate.affinity_propagation.propagate", wraps=propagate
    ) as propagation:
        searched = search(V, positions, GRID, P=V, threads=threads)
    # With alpha 1 all gammas share one clustering; AP on V alone is one more.
    assert propagation.call_count == 2 + 2 + 1 + 1
    assert list(searched) == list(GRID) == list(CLUSTERERS)
    for name, settings in GRID.items():
        clusterings = [setting.cluster(V, positions) for setting in settings]
        np.testing.assert_array_equal(searched[name].labels, [c.labels for c in clusterings])
        np.testing.assert_array_equal(searched[name].converged, [c.converged for c in clusterings])
        assert searched[name].labels.dtype == np.int32
    without_links = search(V, positions, GRID, threads=threads)
    assert set(searched) - set(without_links) == {"links"}


def test_only_the_requested_clusterers_are_in_a_grid() -> None:
    assert list(find_grid("demo", ["threshold", "ap"])) == ["threshold", "ap"]
    assert list(find_grid("demo")) == list(CLUSTERERS)


@pytest.mark.parametrize("grid", [{}, {"threshold": []}])
def test_empty_grids_are_refused(grid: dict[str, Any]) -> None:
    with pytest.raises(PolyplinkError, match="the grid has no setting"):
        search(np.ones((2, 2)), [0, 1], grid)


def test_unknown_grids_and_clusterers_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="no clusterer 'dbscn'; did you mean dbscan"):
        find_grid("demo", ["dbscn"])
    with pytest.raises(PolyplinkError, match="no grid 'papr'; did you mean paper"):
        find_grid("papr")


def test_the_paper_grid_has_the_values_of_the_paper_and_the_demo_grid_is_small() -> None:
    grid: dict[str, Any] = dict(find_grid("paper"))
    alphas, gammas, preferences = (
        list(dict.fromkeys(getattr(setting, name) for setting in grid["temporal_ap"]))
        for name in ("alpha", "gamma", "preference")
    )
    np.testing.assert_allclose(preferences, np.linspace(-5, 5, 41))
    np.testing.assert_allclose(alphas, np.linspace(0, 1, 21))
    np.testing.assert_allclose(gammas[:9], np.linspace(0.1, 0.9, 9))
    np.testing.assert_allclose(gammas[9:], np.arange(1, 10.2, 0.375))
    thresholds = [setting.value for setting in grid["threshold"]]
    np.testing.assert_allclose(thresholds, np.linspace(0, 1, 101))
    assert 0.3 in gammas
    assert 0.29 in thresholds
    sizes = {name: len(settings) for name, settings in grid.items()}
    expected_sizes = {
        "temporal_ap": 29_274,
        "ap": 41,
        "threshold": 101,
        "dbscan": 150,
        "hdbscan": 30,
        "agglomerative": 101,
        "links": 33,
    }
    assert sizes | expected_sizes == sizes  # further clusterers have grids of their own
    assert len(find_grid("demo")["temporal_ap"]) == 325


def test_a_clusterer_of_others_cannot_change_the_similarities() -> None:
    class Mine:
        def cluster(self, V: Any, positions: Any) -> Clustering:
            V[:], positions[:] = 0, 0
            return Clustering(np.zeros(len(V), np.int32), converged=True)

    V, positions = np.eye(3), np.ones(3)
    checked_clustering(Mine(), V, positions, "mine")
    assert (np.eye(3) == V).all()
    assert (positions == 1).all()


@pytest.mark.parametrize("name", [name for name in CLUSTERERS if name != "temporal_ap"])
def test_built_in_clusterers_pass_the_check_for_those_of_others(name: str) -> None:
    check_clusterer(CLUSTERERS[name])  # the 29,274 settings of temporal_ap would take minutes


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([0, 0, 0, 1, 1, 1], "returns list, not a Clustering"),
        (Clustering(np.zeros(5, np.int32), converged=True), r"shape \(5,\) and type int32"),
        (Clustering(np.zeros(6), converged=True), r"type float64, not \(6,\) whole numbers"),  # type: ignore[arg-type]
        (Clustering(np.full(6, 2), converged=True), r"labels are \[2\], not 0 to 0"),
        (
            Clustering(2 * np.arange(6, dtype=np.int32), converged=True),
            "gives the label 10 to one of 6 tracklets",
        ),
        (Clustering(np.full(6, -1), converged=True), "gives the label -1 to one of 6 tracklets"),
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


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.zeros((2, 6), np.int32), r"shape \(2, 6\) and type int32, not \(1, 6\) whole numbers"),
        (np.zeros((1, 6), np.int32), "another result of cluster_many than of cluster"),
    ],
)
def test_check_clusterer_names_what_cluster_many_does_wrong(labels: Any, says: str) -> None:
    @dataclass(frozen=True)
    class Mine:
        @staticmethod
        def grid() -> list[Any]:
            return [Mine()]

        def cluster(self, V: Any, positions: Any) -> Clustering:
            return Clustering(np.arange(len(V), dtype=np.int32) // 3, converged=True)

        @staticmethod
        def cluster_many(settings: Any, V: Any, positions: Any, threads: int) -> Clusterings:
            return Clusterings(labels, np.ones(1, np.bool_))

    with pytest.raises(AssertionError, match=says):
        check_clusterer(Mine)
