import numpy as np

from polyplink.bench.bags import _call, matrix_bags, run, synthetic_fragments
from polyplink.bench.harness import most_memory


def test_bags_are_measured_and_equal() -> None:
    result = run(300)
    assert (result.name, result.size, result.equal) == ("bags", 300, True)
    assert result.rival_s is not None


def test_the_rival_sorts_by_distance_within_the_procedure() -> None:
    procedures, positions = synthetic_fragments(100)
    order = matrix_bags(procedures, positions)
    for i in (0, 57):
        own = [j for j in range(100) if j != i and procedures[j] == procedures[i]]
        own.sort(key=lambda j: abs(positions[j] - positions[i]))
        assert np.array_equal(order[i, : len(own)], own)


def test_the_bags_of_28000_fragments_take_less_than_100_mb() -> None:
    assert most_memory(_call(28_000)) < 100.0
