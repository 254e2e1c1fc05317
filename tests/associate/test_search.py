import numpy as np
import pytest

from polyplink.associate.search import search
from polyplink.associate.settings import (
    CLUSTERERS,
    Agglomerative,
    Dbscan,
    Grid,
    Hdbscan,
    demo_grid,
)
from polyplink.associate.similarity import visual
from polyplink.core.errors import PolyplinkError

GRID = Grid(
    alphas=(0.5, 1.0),
    gammas=(1.0, 5.0),
    preferences=(-1.0, 0.5),
    thresholds=(0.3, 0.7),
    dbscans=(Dbscan(0.3, 2), Dbscan(0.5, 3)),
    hdbscans=(Hdbscan(2, 1), Hdbscan(3, 1, "leaf")),
    linkages=(Agglomerative(0.3), Agglomerative(0.6)),
)


def test_every_row_is_its_setting_alone() -> None:
    rng = np.random.default_rng(0)
    V, positions = visual(rng.normal(size=(12, 5))), np.linspace(0, 1, 12)
    found = search(V, positions, GRID)
    assert tuple(found) == CLUSTERERS
    for name, settings in GRID.by_clusterer().items():
        assert found[name].labels.shape == (len(settings), 12)
        for row, setting in enumerate(settings):
            alone = setting.cluster(V, positions)
            np.testing.assert_array_equal(found[name].labels[row], alone.labels)
            assert found[name].converged[row] == alone.converged


def test_only_what_is_asked_for_is_searched() -> None:
    V, positions = visual(np.eye(4)), np.linspace(0, 1, 4)
    for asked in (("ap",), ("threshold", "dbscan"), ("temporal_ap",), ("agglomerative",)):
        part = GRID.only(asked)
        expected = {*asked, "ap"} if asked == ("temporal_ap",) else set(asked)
        found = search(V, positions, part)
        assert set(found) - {"temporal_ap"} == expected - {"temporal_ap"}
        for name in asked:
            assert part.by_clusterer()[name] == GRID.by_clusterer()[name]
    assert len(GRID.only(["ap"]).temporal_ap()) == 2


def test_empty_grids_and_strange_clusterers_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="the grid has no setting"):
        search(np.ones((2, 2)), [0, 1], Grid())
    with pytest.raises(PolyplinkError, match="no clusterer 'dbscn'; did you mean dbscan"):
        demo_grid().only(["dbscn"])
    with pytest.raises(PolyplinkError, match="no clusterer 'hdbscan'"):
        Grid(thresholds=(0.5,)).only(["hdbscan"])
