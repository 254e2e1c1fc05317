from collections.abc import Iterator

import numpy as np
import pytest
import torch

from polyplink.bench.step import Stepper, profile, recipe, run_on, steppers
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.model import Model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def stepper() -> Iterator[Stepper]:
    with steppers(CPU) as made:
        yield made(3)


def test_a_step_is_measured_and_equal() -> None:
    result = run_on(8, CPU)
    assert (result.name, result.size, result.equal) == ("step", 8, True)
    assert result.rate is not None
    assert "a small model on cpu" in result.rival
    (seconds,) = result.also.values()
    assert seconds == pytest.approx(50 * 875 * result.ours_s)


def test_a_gpu_is_given_the_paper(stepper: Stepper) -> None:
    paper = recipe(torch.device("cuda"))
    assert (paper.prepare.size, paper.fragment_length, paper.bags.k) == (232, 8, 4)  # type: ignore[union-attr]
    assert paper.optim.bags_per_batch == 12
    assert isinstance(stepper.model, Model)


def test_ready_crops_are_those_of_the_batch(stepper: Stepper) -> None:
    batch = stepper.batches[0]
    clips = stepper.drawn.clips[batch.fragments]
    assert clips.shape == (15, 8)
    assert torch.equal(stepper.ready(batch).pixels(clips), stepper.data.pixels(clips))


def test_the_loss_is_that_of_the_plain_path_until_the_loader_errs(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stepper.gap() < 1e-4
    pixels = FragmentSet.pixels

    def wrong(data: FragmentSet, clips: np.ndarray) -> torch.Tensor:
        found = pixels(data, clips)
        return found if clips.ndim == 1 else found.roll(8, 0)

    monkeypatch.setattr(FragmentSet, "pixels", wrong)
    assert stepper.gap() > 1e-4


def test_a_step_moves_the_weights(stepper: Stepper) -> None:
    first = next(iter(stepper.model.encoder.parameters()))
    before = first.detach().clone()
    stepper.step()
    assert not torch.equal(before, first)


def test_a_profile_names_operations() -> None:
    table = profile(2, CPU)
    assert "aten::" in table
    assert "Self CPU" in table
