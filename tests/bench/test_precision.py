import torch

from polyplink.bench.precision import agree, run_on


def test_on_a_cpu_both_are_one_training() -> None:
    result = run_on(2, torch.device("cpu"))
    assert (result.name, result.size, result.equal) == ("precision", 2, True)
    values = list(result.also.values())
    assert len(values) == 6
    assert values[:3] == values[3:]
    assert all(0 < value <= 1 for value in values)


def test_differences_are_held_against_their_own_spread() -> None:
    assert agree([0.60, 0.62, 0.61], [0.61, 0.60, 0.62])
    assert not agree([0.60, 0.62, 0.61], [0.70, 0.721, 0.711])
