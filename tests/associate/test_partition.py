from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.estimators import LinksClustering
from polyplink.associate.partition import MOST, TOLERANCE, partition, partition_cost
from polyplink.core.errors import PolyplinkError


def links(seed: int, n: int, polyps: int = 3) -> npt.NDArray[np.float64]:
    """Noisy link probabilities (n, n) of tracklets of a few polyps."""
    rng = np.random.default_rng(seed)
    polyp = rng.integers(0, polyps, n)
    odds = rng.normal(0.0, 1.5, (n, n)) + np.where(polyp[:, None] == polyp, 1.0, -1.0)
    P = expit((odds + odds.T) / 2)
    P[rng.random((n, n)) < 0.05] = 0.0
    P = np.minimum(P, P.T)
    np.fill_diagonal(P, 1.0)
    return np.asarray(P)


def all_partitions(n: int) -> list[list[int]]:
    partitions: list[list[int]] = [[]]
    for _ in range(n):
        partitions = [
            [*partition, k]
            for partition in partitions
            for k in range(max(partition, default=-1) + 2)
        ]
    return partitions


@pytest.mark.parametrize("tolerance", [TOLERANCE, 0.5])
def test_small_partitions_have_the_lowest_cost(tolerance: float) -> None:
    rng = np.random.default_rng(0)
    for seed in range(40):
        n, price = int(rng.integers(1, 8)), rng.uniform(0.0, 5.0)
        P = links(seed, n)
        cost = partial(partition_cost, P, price=price, tolerance=tolerance)
        lowest = min(cost(labels) for labels in all_partitions(n))
        assert cost(partition(P, [price], tolerance=tolerance)[0]) == pytest.approx(lowest)


def test_cost_equals_a_naive_sum() -> None:
    P, labels = links(1, 5), [0, 1, 0, 1, 2]
    P[0, 2] = P[2, 0] = 0.5
    P[1, 3] = P[3, 1] = 0.8
    assert partition_cost(P, labels, 2.0) == pytest.approx(3 * 2.0 + 0.9 - 0.5 + 0.9 - 0.8)
    assert partition_cost(P, labels, 2.0, tolerance=0.6) == pytest.approx(6.0 + 0.1 - 0.2)


def test_a_higher_price_gives_fewer_polyps_and_one_call_equals_several() -> None:
    P, prices = links(2, 30, 6), np.geomspace(0.1, 50, 12)
    partitions = partition(P, prices)
    assert (np.diff(partitions.max(axis=1)) <= 0).all()
    assert partitions[-1].max() < partitions[0].max()
    for price, labels in zip(prices, partitions, strict=True):
        np.testing.assert_array_equal(LearnedLinks(float(price)).cluster(P, []).labels, labels)
        np.testing.assert_array_equal(LinksClustering(price=float(price)).fit_predict(P), labels)
    together = partitions[:, :, None] == partitions[:, None, :]
    assert not (together & (P == 0)).any()  # probability 0: never one polyp


def test_constraints_hold_and_contradicting_ones_are_named() -> None:
    P = links(3, 12)
    free = partition(P, [1.0])[0]
    apart = np.argwhere(np.triu(free[:, None] != free, k=1))[:3].tolist()
    joined = np.argwhere(np.triu(free[:, None] == free, k=1))[:1].tolist()
    constrained = partition(P, [1.0, 0.0], must=apart, cannot=[])
    assert all((constrained[:, i] == constrained[:, j]).all() for i, j in apart)
    constrained = partition(P, [1.0, 90.0], cannot=joined)
    assert all((constrained[:, i] != constrained[:, j]).all() for i, j in joined)
    for must, cannot, match in (
        ([(0, 1), (1, 2)], [(2, 0)], "tracklets 2 and 0 must show two polyps"),
        ([(0, 12)], [], "names tracklets 0 and 12 of 12"),
        ([(3, 3)], [], "names tracklets 3 and 3"),
    ):
        with pytest.raises(PolyplinkError, match=match):
            partition(P, [1.0], must=must, cannot=cannot)


def test_one_tracklet_is_one_polyp_and_bad_input_is_refused() -> None:
    np.testing.assert_array_equal(partition([[1.0]], [0.0, 3.0]), [[0], [0]])
    for P, price, match in (
        (np.ones((2, 3)), 1.0, "not a square"),
        (np.full((2, 2), np.nan), 1.0, "not finite"),
        (np.ones((2, 2)), -1.0, "the price of a polyp is -1"),
        (np.broadcast_to(1.0, (MOST + 1, MOST + 1)), 1.0, f"up to {MOST}"),
    ):
        with pytest.raises(PolyplinkError, match=match):
            partition(P, [price])


def test_a_weight_equals_that_many_repeated_rows() -> None:
    rng = np.random.default_rng(3)
    P, weights, price = links(7, 8), rng.integers(1, 4, 8), 2.0
    rows = np.repeat(np.arange(8), weights)
    first = np.searchsorted(rows, rows)
    must = [(int(a), i) for i, a in enumerate(first) if a != i]
    repeated = partition(P[np.ix_(rows, rows)], [price], must)[0]
    weighted = partition(P, [price], weights=weights.astype(float))[0]
    np.testing.assert_array_equal(weighted[rows], repeated)
    cost = partition_cost(P, weighted, price, weights.astype(float))
    naive_cost = sum(
        weights[i] * weights[j] * (1e6 if P[i, j] == 0 else 0.9 - P[i, j])
        for i in range(8)
        for j in range(i)
        if weighted[i] == weighted[j]
    )
    assert cost == pytest.approx(price * (weighted.max() + 1) + naive_cost)
