from dataclasses import replace

import pytest
import torch

from polyplink.bench import CATALOGUE, run_benches
from polyplink.bench.harness import BenchResult
from polyplink.bench.run import chosen_benches
from polyplink.core.errors import PolyplinkError


def test_one_benchmark_at_a_size() -> None:
    (result,) = run_benches(["tracklets"], 400)
    assert (result.name, result.size, result.equal) == ("tracklets", 400, True)
    assert "faster than" in result.line()
    assert result.line().endswith("equal")


def test_an_unknown_name_gets_the_nearest_or_all() -> None:
    with pytest.raises(PolyplinkError, match="did you mean tracklets"):
        next(run_benches(["trackets"]))
    with pytest.raises(PolyplinkError, match="choose one of: " + ", ".join(CATALOGUE)):
        next(run_benches(["xyz"]))


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_size_that_cannot_be_measured_is_told_before_anything_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*_: object) -> BenchResult:
        raise AssertionError("measured")

    bench = replace(CATALOGUE[name], run=measured, run_on=None)
    monkeypatch.setattr("polyplink.bench.run.CATALOGUE", {**CATALOGUE, name: bench})
    told = f"{name} cannot be measured at size {bench.least - 1}; give {bench.least} or more"
    with pytest.raises(PolyplinkError, match=told):
        next(run_benches([name], bench.least - 1))
    with pytest.raises(PolyplinkError, match="sweep cannot be measured at size 23; give 24"):
        next(run_benches(["step", "sweep"], 23))


def test_a_gpu_is_for_those_that_use_one() -> None:
    able = [CATALOGUE[name] for name in ("step", "precision", "simulate")]
    assert chosen_benches([], "cuda") == able
    assert len(chosen_benches([], "auto")) == len(CATALOGUE)
    with pytest.raises(PolyplinkError, match="no GPU is used for bags, reid; leave --device out"):
        chosen_benches(["bags", "step", "reid"], "cuda")


def test_a_gpu_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PolyplinkError, match="no device 'tpu'; give auto, cpu or cuda"):
        next(run_benches(["step"], 8, "tpu"))
    if not torch.cuda.is_available():
        with pytest.raises(PolyplinkError, match="no device 'cuda' here"):
            next(run_benches(["step"], 8, "cuda"))
