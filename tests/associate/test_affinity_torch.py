import numpy as np
import pytest
import torch

from polyplink.associate import affinity_torch
from polyplink.associate.affinity import propagate
from polyplink.associate.affinity_torch import propagate_on
from polyplink.associate.similarity import combine, temporal, visual
from polyplink.core.errors import PolyplinkError

CPU = torch.device("cpu")
PREFERENCES = np.array([-5, -2, -0.5, 0.25, 0.5, 0.75, 1.0, 1.25, 3.0])


def similarities(n: int, seed: int, alpha: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    polyp = rng.integers(0, max(n // 8, 2), n)
    centres = rng.normal(size=(polyp.max() + 1, 16))
    V = visual(centres[polyp] + rng.normal(size=(n, 16)))
    return combine(V, temporal(rng.random(n), 2.0), alpha)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 60])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_batches_give_the_clusters_of_the_kernel(n: int, alpha: float) -> None:
    for seed in range(2):
        S = similarities(n, seed, alpha)
        labels, converged = propagate_on(S, PREFERENCES, CPU)
        expected, settled = propagate(S, PREFERENCES)
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(converged, settled)


def test_small_batches_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    S = similarities(20, 3, 0.5)
    whole = propagate_on(S, PREFERENCES, CPU)[0]
    monkeypatch.setattr(affinity_torch, "BATCH", 900)
    np.testing.assert_array_equal(propagate_on(S, PREFERENCES, CPU)[0], whole)


def test_most_runs_are_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[int] = []

    def counted(S: np.ndarray, wanted: np.ndarray) -> object:
        again.append(len(wanted))
        return propagate(S, wanted)

    monkeypatch.setattr(affinity_torch, "propagate", counted)
    clear = np.linspace(-5, 0.25, 12)
    propagate_on(similarities(60, 1, 0.5), clear, CPU)
    assert sum(again) <= 3


def test_bad_similarities_are_refused_as_by_the_kernel() -> None:
    with pytest.raises(PolyplinkError, match="not a square"):
        propagate_on(np.ones((2, 3)), [0.0], CPU)
    with pytest.raises(PolyplinkError, match="a preference is not finite"):
        propagate_on(similarities(5, 0, 0.5), [np.nan], CPU)
