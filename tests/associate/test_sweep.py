from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest
import torch

from polyplink.associate.affinity import propagate
from polyplink.associate.settings import Grid
from polyplink.associate.similarity import visual
from polyplink.associate.sweep import sweep
from polyplink.core.errors import PolyplinkError

GRID = Grid(
    alphas=(0.0, 0.5, 1.0),
    gammas=(0.5, 4.0),
    preferences=(-1.0, 0.3, 0.8, 2.0),
    thresholds=(0.2, 0.6, 1.0),
)


def procedure(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return visual(rng.normal(size=(n, 4))), np.sort(rng.random(n))


@pytest.mark.parametrize("n", [1, 2, 15])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_row_is_its_setting_s_clustering(n: int, threads: int) -> None:
    V, positions = procedure(n)
    found = sweep(V, positions, GRID, threads=threads)
    alone = [setting.cluster(V, positions) for setting in GRID.settings()]
    np.testing.assert_array_equal(found.labels, [c.labels for c in alone])
    np.testing.assert_array_equal(found.converged, [c.converged for c in alone])
    assert found.labels.dtype == np.int32


def test_gammas_that_have_no_say_are_clustered_once() -> None:
    V, positions = procedure(8)
    # By its name: the room's face hands on a function of the same name.
    module = import_module("polyplink.associate.sweep")
    with patch.object(module, "propagate", wraps=propagate) as counted:
        sweep(V, positions, GRID)
    assert counted.call_count == 2 + 2 + 1


def test_a_device_gives_the_same() -> None:
    V, positions = procedure(15)
    found = sweep(V, positions, GRID, device=torch.device("cpu"))
    np.testing.assert_array_equal(found.labels, sweep(V, positions, GRID).labels)


def test_a_grid_of_one_clusterer_is_enough() -> None:
    V, positions = procedure(6)
    assert sweep(V, positions, Grid(thresholds=(0.5,))).labels.shape == (1, 6)
    only_ap = Grid(alphas=(0.5,), gammas=(1.0,), preferences=(0.0, 0.5))
    assert sweep(V, positions, only_ap).labels.shape == (2, 6)


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="the grid has no setting"):
        sweep(np.ones((2, 2)), [0.0, 1.0], Grid())
